# Which tests run on the emulated GPU. An optimised build runs some of them. `make check` runs all of them under
# AddressSanitizer, in several orders of threads and blocks, and the ops' under ThreadSanitizer.
set(own "Emulated*:Planted*:Primitives.*")
set(ops "*/Cuda0:CudaDevice.*")
set(models "*Golden.TheGpuMatchesToo/*:EngineOnGpu/*")
set(rounds "OnGpu/RoundMoving*")
# What an optimised build and ThreadSanitizer leave out: tests of more than two seconds, whose kernels and scripts the
# shorter ones run too, and one that a busy machine can fail.
string(CONCAT long "*Attend.InvariantRows*:*Attend.PrefillRows*:*Attend.ChunksOfAPrompt*:*Attend.*EveryHeadSize*:"
  "*Attend.ADecodeRow*:*Matmul.*EveryWeightType*:*Matmul.*ModelSized*:*Matmul.*SeveralBlocks*:*Matmul.InvariantRows*:"
  "CudaDevice.AStreamWaits*:CudaDevice.TheHostWaits*:CudaDevice.NotifyComes*:CudaDevice.StreamsNotOrdered*:"
  "CudaDevice.ClosingReports*:GpuCheck.EveryStageEnds*:GpuCheck.*DoesNotListen*:GpuCheck.TheFileIsWhole*:"
  "GpuCheck.TwoRunsAtOnce*:GpuCheckPack.TheEmulatedPrograms*:GpuCheckPack.ABundleBrings*")
string(CONCAT some_models "*Golden.TheGpuMatchesToo/*gqa7_head64_tied:*Golden.TheGpuMatchesToo/*q4_k:"
  "EngineOnGpu/Steps.LayerRanges*:EngineOnGpu/Steps.PromptsAndAnswers*/bf16_*:EngineOnGpu/Steps.RowsWithoutLogits*/bf16_*:"
  "EngineOnGpu/RoundsOfAMessage.TheChoice*:EngineOnGpu/RoundsOfAMessage.ThereIsNothing*")

# emulated_test(NAME ORDER FILTER variables...)
function(emulated_test name order filter)
  add_test(NAME ${name} COMMAND tests_emulated "--gtest_filter=${filter}" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  # One program, several tests: each has a report of its own, for tools/run_tests.sh to count.
  set(variables RONDO_EMULATED_ORDER=${order} GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/reports/tests_${name}.xml ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${emulated_s_max} ENVIRONMENT "${variables}")
endfunction()

if(NOT RONDO_TSAN)  # which looks at its own, and has no program
  expect_every_pattern(emulated_filters tests_emulated
    "${own}:GpuCheck*:${ops}:${models}:${some_models}:${rounds}-${long}")
endif()
if(RONDO_TSAN)
  add_tsan_tests(emulated tests_emulated "${own}:${ops}-${long}" RONDO_EMULATED_ORDER=forward)
elseif(RONDO_SANITIZE)
  set(emulated_s_max 4000)
  emulated_test(emulated forward "${own}:GpuCheck*:${ops}:${models}:${rounds}")
  emulated_test(emulated_reverse reverse "${own}:${ops}:${models}:${rounds}" RONDO_EMULATED_LATE=1)
  emulated_test(emulated_random random "${ops}:${models}")
  foreach(seed 2 3)
    emulated_test(emulated_random_${seed} random:${seed} "${ops}")
  endforeach()
else()
  set(emulated_s_max 300)
  emulated_test(emulated random "${own}:GpuCheck*:${ops}:${some_models}:${rounds}-${long}" RONDO_EMULATED_LATE=1)
endif()
