// The program's own parts that are tested one by one.
#include "cli/measure/multi_turn/answer_stream.cpp"
#include "cli/measure/multi_turn/plot.cpp"
#include "cli/measure/multi_turn/report.cpp"
#include "cli/measure/multi_turn/schedule.cpp"
#include "cli/measure/multi_turn/statistics.cpp"
#include "cli/measure/multi_turn/words.cpp"
#include "cli/measure/multi_turn/workload.cpp"
#include "cli/server_complaint.cpp"
