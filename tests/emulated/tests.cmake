# Which tests run on the emulated GPU, where. PlantedRaces exist under ThreadSanitizer alone.
set(own "Emulated*:Planted*:Primitives.*:GpuCheck.*")
set(ops "*/Cuda0:CudaDevice.*")
set(models "*Golden.TheGpuMatchesToo/*:EngineOnGpu/*")

function(emulated_test name filter order)
  add_test(NAME ${name} COMMAND tests_emulated "--gtest_filter=${filter}" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "RONDO_EMULATED_ORDER=${order};TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp")
endfunction()

emulated_test(emulated "${own}:${ops}:${models}" forward)
