# Under ThreadSanitizer only those tests run in which threads meet: the rest would take hours and could find nothing. Most
# tests of the actors run all of them in one thread; those here have the engine's own threads. (The two left out are about
# how long somebody waits.)
set(tsan_filter_kernels "ThreadPool*:CpuDevice*:*Kv*:*Threads*")
set(tsan_filter_transport "*")
# RocksDB is not built with it.
set(tsan_filter_memory
  "*-Manifest*:*KvStore*:*RoundMoving*:*Shelf*:*StoreSurvey*:*StoreKill*:*StoreNoSpace*:*StoreDamage*:*SmallDisk*:*FullDisk*")
set(tsan_filter_model
  "Transformer.*:StepAttention*.*:Choice*.*:DecodeSelection.*:RandomWeights.*:TwoHeads.*:Ring.*:*SparseAttention*:WeightsLoading.*:ChatTemplate.*Thread*")
set(tsan_filter_actors
  "Engine.*:HostedEngine.*:Conversations/SameTokens.*:Roles/Devices.GiveThePlain*:Lag/*:TextQueue.*:TextWorkers.*:ChatTexts.*:*Exchange*:Gateway*-GatewayTest.RefusesWhatIsTooMuchAtOnce:GatewayAbuse.ASlowReader*")
set(tsan_suite_s_max 900)  # who takes longer hangs
add_custom_target(tsan_tests)

# add_tsan_tests(NAME PROGRAM FILTER variables...): each suite of the program that the filter takes is a test NAME.SUITE,
# listed when ctest runs (tsan_suites.cmake). A race ends the program with a status of its own.
function(add_tsan_tests name program filter)
  set(environment "TSAN_OPTIONS=second_deadlock_stack=1:atexit_sleep_ms=100" ${ARGN})
  set(listed ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  file(GENERATE OUTPUT ${listed} CONTENT "set(name [[${name}]])
set(program [[$<TARGET_FILE:${program}>]])
set(filter [[${filter}]])
set(folder [[${CMAKE_SOURCE_DIR}]])
set(reports [[${CMAKE_BINARY_DIR}/reports]])
set(environment [[${environment}]])
set(seconds_max ${tsan_suite_s_max})
include([[${CMAKE_SOURCE_DIR}/tests/tsan_suites.cmake]])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${listed})
  add_dependencies(tsan_tests ${program})
endfunction()
