#include "transport/http_url.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rondo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Url, HasHostPortAndPath) {
    struct Case {
        const char *text, *host;
        uint16_t port;
        const char *path, *authority;
    };
    for (const Case& one : {
             Case{"http://127.0.0.1:8080/v1", "127.0.0.1", 8080, "/v1", "127.0.0.1:8080"},
             Case{"http://localhost", "localhost", 80, "", "localhost"},
             Case{"HTTP://Some-host.example:65535/", "Some-host.example", 65535, "", "Some-host.example:65535"},
             Case{"http://h:1//a//", "h", 1, "//a", "h:1"},
             Case{"http://[::1]:9/x/y", "::1", 9, "/x/y", "[::1]:9"},
             Case{"http://[fe80::1]", "fe80::1", 80, "", "[fe80::1]"},
             Case{"https://host/api", "host", 443, "/api", "host"},
             Case{"HTTPS://host:80", "host", 80, "", "host:80"},
             Case{"http://host:443", "host", 443, "", "host:443"},
             Case{"https://[::1]:443/v1", "::1", 443, "/v1", "[::1]"},
         }) {
        const auto url = Url::parse(one.text);
        ASSERT_TRUE(url) << one.text << ": " << url.error().message;
        EXPECT_EQ(url->host, one.host);
        EXPECT_EQ(url->port, one.port);
        EXPECT_EQ(url->path, one.path);
        EXPECT_EQ(url->authority(), one.authority);
    }
}

TEST(Url, IsGivenWithAndWithoutTheRootOfTheApi) {
    for (const auto& [text, path] : {std::pair("http://h", ""), std::pair("http://h/v1", ""),
                                     std::pair("http://h/v1/", ""), std::pair("http://h/base", "/base"),
                                     std::pair("http://h/base//v1", "/base"), std::pair("http://h/v10", "/v10")}) {
        const auto url = Url::parse(text);
        ASSERT_TRUE(url) << text;
        EXPECT_EQ(url->without_v1().path, path) << text;
        EXPECT_EQ(url->without_v1().authority(), url->authority());
    }
}

TEST(Url, RefusesWhatItCannotReach) {
    for (const char* text : {"",
                             "http://",
                             "http:/a",
                             "localhost:8080",
                             "ftp://a",
                             "http://:80",
                             "http://a:",
                             "http://a:0",
                             "http://a:65536",
                             "http://a:-1",
                             "http://a:8x",
                             "http://a:80:80",
                             "http://a b",
                             "http://a\r\nX: y",
                             "http://a/b c",
                             "http://a/\n",
                             "http://a/?q",
                             "http://a/#f",
                             "http://[::1",
                             "http://[::1]x",
                             "http://[]:1",
                             "http://a\\b",
                             "http://\xff",
                             "http://a/\x80"}) {
        const auto url = Url::parse(text);
        ASSERT_FALSE(url) << text;
        EXPECT_EQ(url.error().code, ErrorCode::invalid_argument);
        EXPECT_THAT(url.error().message, HasSubstr("; it must be http://HOST:PORT/PATH"));
    }
    EXPECT_FALSE(Url::parse("http://a/" + std::string(4000, 'a')));
}

TEST(Url, TellsItsOriginAndWhetherThatIsThisMachine) {
    for (const auto& [text, origin, loopback] : {std::tuple("https://host/v1", "https://host", false),
                                                 {"http://localhost:8080/", "http://localhost:8080", true},
                                                 {"https://[::1]/", "https://[::1]", true},
                                                 {"http://127.0.0.9", "http://127.0.0.9", true},
                                                 {"http://127.0.0.1.example", "http://127.0.0.1.example", false},
                                                 {"https://host:80", "https://host:80", false}}) {
        const auto url = Url::parse(text);
        ASSERT_TRUE(url) << text;
        EXPECT_EQ(url->origin(), origin);
        EXPECT_EQ(url->is_loopback(), loopback) << text;
        EXPECT_EQ(url->tls, std::string(text).starts_with("https"));
    }
}

TEST(Url, ErrorsKeepPasswordsToThemselves) {
    const auto url = Url::parse("http://me:secret@host/");
    ASSERT_FALSE(url);
    EXPECT_THAT(url.error().message, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace rondo
