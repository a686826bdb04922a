// The parts of `rondo eval` that are tested one by one.
#include "cli/eval/bootstrap.cpp"
#include "cli/eval/eval_tables.cpp"
#include "cli/eval/line_overlap.cpp"
#include "cli/eval/python_random.cpp"
#include "cli/eval/report_json.cpp"
#include "cli/eval/report_markdown.cpp"
#include "cli/eval/roundtalk.cpp"
#include "cli/eval/roundtalk_world.cpp"
