// What docs/deployment.md has systemd and nginx wait for and let through is what the server does.

#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "config/settings.hpp"
#include "tests/house/source_tree.hpp"
#include "transport/http_server.hpp"

namespace rondo::house {
namespace {

/// The number behind the only place of the page where `before` stands.
size_t number_behind(const std::string& before) {
    std::ifstream in(fs::path(RONDO_SOURCE_DIR) / "docs" / "deployment.md");
    std::ostringstream page;
    page << in.rdbuf();
    const std::string text = page.str();
    const std::regex wanted(before + "([0-9]+)");
    const std::sregex_iterator first(text.begin(), text.end(), wanted), end;
    EXPECT_EQ(std::distance(first, end), 1) << before;
    return first == end ? 0 : std::stoul((*first)[1].str());
}

TEST(DeploymentPage, TheProxyLetsThroughWhatTheServerTakes) {
    EXPECT_EQ(number_behind("client_max_body_size ") << 20, HttpLimits{}.body_bytes_max);
    EXPECT_GT(number_behind("proxy_read_timeout "), static_cast<size_t>(ServerSettings{}.deadline_s));
    EXPECT_EQ(number_behind("not come whole may take ") << 20, HttpLimits{}.bodies_bytes_max / 2);
}

TEST(DeploymentPage, SystemdIsMorePatientThanTheServer) {
    EXPECT_GT(number_behind("TimeoutStopSec="), number_behind("--drain-s ") + 1);
}

}  // namespace
}  // namespace rondo::house
