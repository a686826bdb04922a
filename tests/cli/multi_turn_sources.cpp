// The program's own parts that are tested one by one.
#include "cli/multi_turn/answer_stream.cpp"
#include "cli/multi_turn/plot.cpp"
#include "cli/multi_turn/report.cpp"
#include "cli/multi_turn/schedule.cpp"
#include "cli/multi_turn/statistics.cpp"
#include "cli/multi_turn/words.cpp"
#include "cli/multi_turn/workload.cpp"
#include "cli/server_complaint.cpp"
