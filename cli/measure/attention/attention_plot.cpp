#include <algorithm>
#include <functional>

#include "cli/measure/attention/attention_report.hpp"
#include "cli/measure/panel.hpp"

namespace rondo::cli::attention {

namespace {

using Point = Svg::Point;

constexpr double small_text = 12.0, letter = 7.4;

struct Curve {
    std::string name;
    Color color;
    std::function<std::optional<double>(const LayerSummary&)> value;
    std::function<double(const LayerSummary&)> deviation = {};
};

std::function<std::optional<double>(const LayerSummary&)> mean_of(Spread LayerSummary::*part) {
    return [part](const LayerSummary& layer) {
        const Spread& spread = layer.*part;
        return spread.is_known() ? std::optional(spread.mean) : std::nullopt;
    };
}

/// Between a panel and its title, from the right.
void draw_names(Svg& svg, double left, const std::vector<Curve>& curves) {
    double at = left + panel_width;
    for (size_t i = curves.size(); i-- > 0;) {
        at -= static_cast<double>(curves[i].name.size()) * letter;
        svg.text({at, panel_top - 7.0}, curves[i].name, small_text, colors::quiet, Svg::Anchor::start);
        at -= 16.0;
        svg.bar({at, panel_top - 17.0}, 11.0, 11.0, curves[i].color);
        at -= 14.0;
    }
}

/// Labels at no more layers than have room.
void draw_layers(const std::function<void(size_t)>& tick, size_t layers) {
    const size_t step = std::max<size_t>(1, (layers + 15) / 16);
    for (size_t layer = 0; layer < layers; layer += step) tick(layer);
}

Panel begin_layers(Svg& svg, double left, size_t layers, double top, const std::string& title,
                   const std::string& y_name) {
    const Panel panel{left, 0.5, static_cast<double>(layers) + 0.5, top};
    draw_frame(svg, panel, title, "layer", y_name);
    draw_layers(
        [&](size_t layer) { draw_x_tick(svg, panel.x(static_cast<double>(layer + 1)), std::to_string(layer + 1)); },
        layers);
    return panel;
}

void draw_curve(Svg& svg, const Panel& panel, const Curve& curve, const std::vector<LayerSummary>& layers) {
    std::vector<Point> points;
    for (size_t i = 0; i < layers.size(); ++i) {
        const auto value = curve.value(layers[i]);
        if (!value) continue;
        const double x = panel.x(static_cast<double>(i + 1));
        points.push_back({x, panel.y(std::clamp(*value, 0.0, panel.y_high))});
        if (!curve.deviation) continue;
        const double low = std::max(0.0, *value - curve.deviation(layers[i]));
        const double high = std::min(panel.y_high, *value + curve.deviation(layers[i]));
        svg.line({x, panel.y(low)}, {x, panel.y(high)}, curve.color, 1.0);
    }
    if (points.size() > 1) svg.path(points, curve.color, 2.0);
    for (const Point& point : points) svg.dot(point, layers.size() > 40 ? 2.0 : 3.6, curve.color);
}

/// Shares of several kinds, by layer.
void draw_shares(Svg& svg, double left, const Summary& summary, const std::string& title,
                 const std::vector<Curve>& curves, std::optional<double> level) {
    const Panel panel = begin_layers(svg, left, summary.layers.size(), 1.0, title, "share");
    draw_names(svg, left, curves);
    if (level) svg.dashed_line({left, panel.y(*level)}, {left + panel_width, panel.y(*level)}, colors::quiet);
    for (const Curve& curve : curves) draw_curve(svg, panel, curve, summary.layers);
}

void draw_divergence(Svg& svg, double left, const Summary& summary) {
    double top = 0.0;
    for (const LayerSummary& layer : summary.layers)
        top = std::max(top, layer.divergence.mean + layer.divergence.deviation);
    const Panel panel =
        begin_layers(svg, left, summary.layers.size(), round_up(top, 5), "Divergence from later layers (D)", "nats");
    const Curve curve = {"mean and spread", colors::blue, mean_of(&LayerSummary::divergence),
                         [](const LayerSummary& layer) { return layer.divergence.deviation; }};
    draw_names(svg, left, {curve});
    if (summary.watershed) {
        const double x = panel.x(static_cast<double>(summary.watershed->layer));
        svg.dashed_line({x, panel_top}, {x, panel_bottom}, colors::orange);
    }
    draw_curve(svg, panel, curve, summary.layers);
}

/// Cells from nothing to the greatest value; row 0 at the top.
void draw_cells(Svg& svg, double left, const std::string& title, const std::string& x_name, const std::string& y_name,
                const std::vector<std::vector<double>>& rows, Color color) {
    svg.text({left, panel_top - 24.0}, title, 14.0, colors::ink, Svg::Anchor::start);
    svg.text({left + panel_width / 2.0, panel_bottom + 42.0}, x_name, small_text, colors::quiet, Svg::Anchor::middle);
    svg.text_upwards({left - 52.0, panel_top + panel_height / 2.0}, y_name, small_text, colors::quiet);
    double greatest = 0.0;
    size_t columns = 0;
    for (const auto& row : rows) {
        columns = std::max(columns, row.size());
        for (const double value : row) greatest = std::max(greatest, value);
    }
    if (columns == 0 || greatest <= 0.0) {
        svg.text({left + panel_width / 2.0, panel_top + panel_height / 2.0}, "nothing to show", small_text,
                 colors::quiet, Svg::Anchor::middle);
        return;
    }
    char most[32];
    std::snprintf(most, sizeof most, "darkest: %.3g", greatest);
    svg.text({left + panel_width, panel_top - 7.0}, most, small_text, colors::quiet, Svg::Anchor::end);
    const double width = panel_width / static_cast<double>(columns);
    const double height = panel_height / static_cast<double>(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
        for (size_t j = 0; j < rows[i].size(); ++j) {
            const double x = left + static_cast<double>(j) * width, y = panel_top + static_cast<double>(i) * height;
            svg.area({{x, y}, {x + width, y}, {x + width, y + height}, {x, y + height}}, color,
                     std::max(0.0, rows[i][j] / greatest));
        }
    }
    draw_layers(
        [&](size_t row) {
            svg.text({left - 8.0, panel_top + (static_cast<double>(row) + 0.5) * height + 4.0}, std::to_string(row + 1),
                     small_text, colors::quiet, Svg::Anchor::end);
        },
        rows.size());
    draw_layers(
        [&](size_t column) {
            draw_x_tick(svg, left + (static_cast<double>(column) + 0.5) * width, std::to_string(column + 1));
        },
        columns);
}

/// By layer and by how many rounds back: the mean of those dialogues that have a round there.
std::vector<std::vector<double>> masses_by_lag(const std::vector<Conversation>& conversations,
                                               Masses LayerFigures::*part) {
    constexpr size_t lags_max = 32;
    std::vector<std::vector<double>> means;
    for (size_t layer = 0; layer < conversations.front().layers.size(); ++layer) {
        std::vector<double> sums, counts;
        for (const Conversation& conversation : conversations) {
            const Masses& masses = conversation.layers[layer].*part;
            const size_t lags = std::min(masses.size(), lags_max);
            if (sums.size() < lags) sums.resize(lags), counts.resize(lags);
            for (size_t lag = 0; lag < lags; ++lag) {
                sums[lag] += masses[masses.size() - 1 - lag];
                counts[lag] += 1.0;
            }
        }
        for (size_t lag = 0; lag < sums.size(); ++lag) sums[lag] /= counts[lag];
        means.push_back(std::move(sums));
    }
    return means;
}

std::vector<std::vector<double>> rows_of(const std::vector<double>& matrix, size_t layers) {
    std::vector<std::vector<double>> rows;
    for (size_t i = 0; i < layers; ++i) {
        const auto begin = matrix.begin() + static_cast<std::ptrdiff_t>(i * layers);
        rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(layers));
    }
    return rows;
}

std::vector<std::vector<double>> how_often_paired(const Summary& summary) {
    const size_t layers = summary.layers.size();
    std::vector<double> counts(layers * layers);
    for (const StrategyUse& use : summary.strategies) {
        for (const LayerPair& pair : use.pairs) {
            const auto lower = static_cast<size_t>(pair.lower), upper = static_cast<size_t>(pair.upper);
            counts[lower * layers + upper] += use.conversations;
            counts[upper * layers + lower] += use.conversations;
        }
    }
    return rows_of(counts, layers);
}

}  // namespace

std::vector<Drawing> draw_attention(const AttentionFacts& facts, const std::vector<Conversation>& conversations,
                                    const Summary& summary) {
    const std::string under =
        facts.model + "; " + facts.dialogues + "; dialogues: " + std::to_string(conversations.size());
    std::vector<Drawing> drawings;
    const auto page = [&](const std::string& file, const std::string& title, const auto& draw) {
        Svg svg = begin_page(title, under);
        draw(svg);
        drawings.push_back({file, std::move(svg).finish()});
    };
    page("layers.svg", "Where layers look", [&](Svg& svg) {
        draw_shares(svg, left_panel, summary, "On the first and last tenth of the keys",
                    {{"I-R score", colors::blue, mean_of(&LayerSummary::initial_recent),
                      [](const LayerSummary& layer) { return layer.initial_recent.deviation; }}},
                    facts.choice.gamma);
        draw_shares(svg, right_panel, summary, "Lines",
                    {{"in 10% of them", colors::blue, mean_of(&LayerSummary::line_share)},
                     {"chosen again", colors::orange, mean_of(&LayerSummary::line_overlap)}},
                    std::nullopt);
    });
    page("rounds.svg", "Which rounds matter, by layer", [&](Svg& svg) {
        draw_divergence(svg, left_panel, summary);
        const Spread& chance = summary.evidence_by_chance;
        draw_shares(svg, right_panel, summary, "Top 10% of rounds",
                    {{"their mass", colors::blue, mean_of(&LayerSummary::top_share)},
                     {"evidence found", colors::orange, mean_of(&LayerSummary::evidence_found)}},
                    chance.is_known() ? std::optional(chance.mean) : std::nullopt);
    });
    page("masses.svg", "Attention on past rounds, by how many rounds back", [&](Svg& svg) {
        draw_cells(svg, left_panel, "of the question", "rounds back", "layer",
                   masses_by_lag(conversations, &LayerFigures::question), colors::blue);
        draw_cells(svg, right_panel, "of its answer", "rounds back", "layer",
                   masses_by_lag(conversations, &LayerFigures::answer), colors::teal);
    });
    page("pairs.svg", "Pairs of layers", [&](Svg& svg) {
        draw_cells(svg, left_panel, "how far apart", "layer", "layer",
                   rows_of(summary.distances, summary.layers.size()), colors::purple);
        draw_cells(svg, right_panel, "dialogues that pair them", "layer", "layer", how_often_paired(summary),
                   colors::teal);
    });
    return drawings;
}

}  // namespace rondo::cli::attention
