# Under ThreadSanitizer only those tests run in which threads meet: the rest would take hours and could find nothing. Most
# tests of the actors run all of them in one thread; those here have the engine's own threads. (The two left out are about
# how long somebody waits.)
set(tsan_filter_kernels "ThreadPool*:CpuDevice*:*Kv*:*Threads*")
set(tsan_filter_transport "*")
set(tsan_filter_memory "*")
set(tsan_filter_model
  "Transformer.*:SelectiveDecode*.*:DecodeSelection.*:StepSelection.*:RandomWeights.*:*SparsePrefill*:Ring.*:*SparseAttention*:WeightsLoading.*:ChatTemplate.*Thread*")
set(tsan_filter_actors
  "Engine.*:HostedEngine.*:Conversations/SameTokens.*:Roles/Devices.GiveThePlain*:Lag/*:TextQueue.*:TextWorkers.*:ChatTexts.*:*Exchange*:Gateway*-GatewayTest.RefusesWhatIsTooMuchAtOnce:GatewayAbuse.ASlowReader*")
add_custom_target(tsan_tests)

# add_tsan_test(FOLDER): tests_FOLDER as far as the table above has it. A race ends the program with a status of its own.
function(add_tsan_test folder)
  if(NOT DEFINED tsan_filter_${folder})
    return()
  endif()
  add_test(NAME ${folder} COMMAND tests_${folder} "--gtest_filter=${tsan_filter_${folder}}"
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${folder} PROPERTIES ENVIRONMENT
    "TSAN_OPTIONS=second_deadlock_stack=1")
  add_dependencies(tsan_tests tests_${folder})
endfunction()
