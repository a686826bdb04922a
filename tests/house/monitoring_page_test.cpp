// docs/monitoring.md lists each metric and each field of the access log, and none that is gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/house/source_tree.hpp"

namespace rondo::house {
namespace {

using Kinds = std::map<std::string, std::string>;  // of metrics, by name

std::string text_in(const std::string& file) {
    std::ifstream in(fs::path(RONDO_SOURCE_DIR) / file);
    EXPECT_TRUE(in) << file;
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

std::vector<std::smatch> matches(const std::string& text, const std::regex& wanted) {
    return {std::sregex_iterator(text.begin(), text.end(), wanted), std::sregex_iterator()};
}

Kinds metrics_of_the_code(const std::string& code) {
    static const std::regex made(R"rx(\b(counter|gauge|histogram|counted|measured)\(\s*"([a-z0-9_]+)")rx");
    static const std::regex built(R"rx(Build(Counter|Gauge|Histogram)\(\)\s*\.Name\("rondo:([a-z0-9_]+)"\))rx");
    static const std::map<std::string, std::string> kinds = {
        {"counted", "counter"}, {"measured", "gauge"}, {"Counter", "counter"}, {"Gauge", "gauge"}};
    Kinds found;
    for (const std::regex& wanted : {made, built}) {
        for (const std::smatch& match : matches(code, wanted)) {
            const auto kind = kinds.find(match[1].str());
            EXPECT_TRUE(found.emplace(match[2].str(), kind == kinds.end() ? match[1].str() : kind->second).second)
                << match[2] << " twice";
        }
    }
    return found;
}

Kinds metrics_of_the_page(const std::string& page) {
    static const std::regex row(R"rx(\n\| `rondo:([a-z0-9_]+)` \| (\w+) \| [^|\n]+ \| [^|\n]+ \|)rx");
    Kinds found;
    for (const std::smatch& match : matches(page, row))
        EXPECT_TRUE(found.emplace(match[1].str(), match[2].str()).second) << match[1] << " twice";
    return found;
}

TEST(MonitoringPage, HasEachMetricWithItsKindAndUnit) {
    const Kinds metrics = metrics_of_the_code(text_in("actors/metrics.cpp"));
    EXPECT_GE(metrics.size(), 60U);
    EXPECT_EQ(metrics_of_the_page(text_in("docs/monitoring.md")), metrics);
}

TEST(MonitoringPage, MetricsAreFoundHoweverTheyAreMade) {
    const Kinds made = metrics_of_the_code(
        "BuildCounter().Name(\"rondo:\" + name)\nprometheus::Counter& a = counter(\n  \"a_total\", \"A\");\n"
        "gauge(\"b\", \"B\"); histogram(\"c\", \"C\"); counted(\"d_total\", \"D\", of.d); measured(\"e\", \"E\", "
        "of.e);\n"
        "prometheus::BuildGauge()\n    .Name(\"rondo:f\")\n");
    EXPECT_EQ(made, (Kinds{{"a_total", "counter"},
                           {"b", "gauge"},
                           {"c", "histogram"},
                           {"d_total", "counter"},
                           {"e", "gauge"},
                           {"f", "gauge"}}));
    EXPECT_EQ(metrics_of_the_page("\n| `rondo:a_total` | counter | s | A |\n| `rondo:b` | gauge | B |\n"),
              (Kinds{{"a_total", "counter"}}));
}

TEST(MonitoringPage, HasEachFieldOfTheAccessLog) {
    static const std::regex field(R"rx(\{"([a-z_]+)", |line\["([a-z_]+)"\])rx"), quoted("`([a-z_]+)`");
    std::set<std::string> fields, told;
    const std::string code = text_in("actors/gateway/bodies/access_log.cpp");
    for (const std::smatch& match : matches(code, field)) fields.insert((match[1].matched ? match[1] : match[2]).str());
    EXPECT_GE(fields.size(), 13U);

    const std::string page = text_in("docs/monitoring.md");
    const size_t begin = page.find("\n| field | is |\n");
    ASSERT_NE(begin, std::string::npos);
    std::istringstream rows(page.substr(begin + 1, page.find("\n\n", begin) - begin));
    for (std::string line; std::getline(rows, line);) {
        const std::string first = line.substr(0, line.find('|', 1));
        for (const std::smatch& match : matches(first, quoted)) told.insert(match[1].str());
    }
    EXPECT_EQ(told, fields);
}

}  // namespace
}  // namespace rondo::house
