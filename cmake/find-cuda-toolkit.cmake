# CMake 3.25 marks a library of the toolkit deprecated that CUDA 13 no longer has, and stumbles over that; but only for a
# project that asks for 3.25.
set(rondo_minimum ${CMAKE_MINIMUM_REQUIRED_VERSION})
set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
find_package(CUDAToolkit REQUIRED)
set(CMAKE_MINIMUM_REQUIRED_VERSION ${rondo_minimum})
