# tests_gpu: what tools/gpu_check.sh takes to a machine with a GPU, as one small program: the tests of ops, of models and
# of rounds on their way, object for object, and those of the primitives that the emulated GPU stands on. Built when
# somebody asks for it.
set(primitives emulated/primitives.cu)
set(of_models "/(golden_models|(quantized_)?golden_test|gguf_twin|transformer_test)\\.cpp")
add_executable(tests_gpu EXCLUDE_FROM_ALL ${primitives} emulated/primitives_test.cpp $<TARGET_OBJECTS:tests_kernels>
  $<FILTER:$<TARGET_OBJECTS:tests_model>,INCLUDE,${of_models}>
  $<FILTER:$<TARGET_OBJECTS:tests_memory>,INCLUDE,/round_moving_[a-z_]*test\\.cpp>)
set_target_properties(tests_gpu PROPERTIES CUDA_ARCHITECTURES OFF CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 17
  CUDA_EXTENSIONS ON CUDA_STANDARD_REQUIRED OFF)
target_include_directories(tests_gpu PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(tests_gpu PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -gencode=arch=compute_80,code=[sm_80,compute_80]
  -gencode=arch=compute_90a,code=sm_90a>
  $<$<COMPILE_LANGUAGE:CXX>:${RONDO_LIGHTLY_OPTIMISED}>)
target_link_libraries(tests_gpu PRIVATE rondo_model rondo_memory rondo_kernels rondo_config CUDA::cudart_static
  GTest::gtest GTest::gmock GTest::gtest_main)
