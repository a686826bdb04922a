# The CUDA backend: real code for compute capability 8.x and for Hopper, and PTX of 8.0, which a driver compiles for
# what comes later (sm_90a's own PTX runs on no other chip). cuBLASLt is looked up at run time, so a binary starts
# without toolkit or driver.
file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/*.cu ${CMAKE_CURRENT_SOURCE_DIR}/cuda/*.cpp)
# As the root says for C++: asserts stay in.
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O3 -Xcompiler=-g1")
add_library(rondo_cuda STATIC ${cuda_sources})
# CMake 3.25 knows no C++20 for nvcc: it is told the compiler's default, for which it adds no flag, and the flag stands
# below.
set_target_properties(rondo_cuda PROPERTIES CUDA_ARCHITECTURES OFF CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 17
  CUDA_EXTENSIONS ON CUDA_STANDARD_REQUIRED OFF)
target_include_directories(rondo_cuda PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(rondo_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -Xcompiler=-Wall,-Wextra
  -gencode=arch=compute_80,code=[sm_80,compute_80] -gencode=arch=compute_90a,code=sm_90a>)
target_link_libraries(rondo_cuda PRIVATE rondo_config rondo_kernels CUDA::cudart_static ${CMAKE_DL_LIBS}
  Threads::Threads)
target_link_libraries(rondo_kernels PRIVATE rondo_cuda)
# The one place in C++ that knows whether CUDA is in the build.
set_source_files_properties(backend.cpp PROPERTIES COMPILE_DEFINITIONS RONDO_HAS_CUDA)
include(GNUInstallDirs)
set_target_properties(rondo_cuda PROPERTIES EXPORT_NAME cuda)
install(TARGETS rondo_cuda EXPORT rondo ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
