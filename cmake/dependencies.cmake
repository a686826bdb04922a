# What Rondo builds on, all of it Debian packages (tools/install_packages.sh lists them) but for CUDA.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)

# oneDNN runs on OpenMP; the pool tells it to use the calling thread only.
if(NOT RONDO_FUZZ)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
# oneDNN's own CMake config asks for OpenCL, which nothing here uses.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(rondo_dnnl INTERFACE)
target_include_directories(rondo_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(rondo_dnnl INTERFACE ${DNNL_LIBRARY})

set(RONDO_HAS_CUDA OFF)
if(RONDO_CUDA AND NOT RONDO_SANITIZE AND NOT RONDO_FUZZ)
  find_program(RONDO_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(RONDO_NVCC)
    set(CMAKE_CUDA_COMPILER ${RONDO_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES OFF)  # named in kernels/CMakeLists.txt
    enable_language(CUDA)
    # CMake 3.25 marks a library of the toolkit deprecated that CUDA 13 no longer has, and stumbles over that; but only
    # for a project that asks for 3.25.
    set(rondo_minimum ${CMAKE_MINIMUM_REQUIRED_VERSION})
    set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
    find_package(CUDAToolkit REQUIRED)
    set(CMAKE_MINIMUM_REQUIRED_VERSION ${rondo_minimum})
    set(RONDO_HAS_CUDA ON)
  elseif(RONDO_CUDA STREQUAL REQUIRED)
    message(FATAL_ERROR "nvcc not found: put it on PATH or in /usr/local/cuda/bin, or leave RONDO_CUDA at ON")
  endif()
endif()
message(STATUS "CUDA backend: ${RONDO_HAS_CUDA}")
