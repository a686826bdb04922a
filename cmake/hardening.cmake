# Rondo is built to be exposed: what an overflow could make of the process is bounded by the compiler, the C library and
# the linker. A build under sanitizers or the fuzzer finds the same and more by itself. tests/house looks at the program.
set(RONDO_HARDENED OFF)
if(NOT RONDO_SANITIZE AND NOT RONDO_TSAN AND NOT RONDO_FUZZ)
  set(RONDO_HARDENED ON)
  include(CheckPIESupported)
  check_pie_supported()
  set(flags -fstack-protector-strong -fstack-clash-protection)
  # The C library's checks need optimised code; some compilers define the macro by themselves, lower.
  if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    list(APPEND flags -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  endif()
  foreach(flag ${flags})
    # Of CUDA files the host's part, which nvcc hands to the C++ compiler.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${flag}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flag}>)
  endforeach()
  add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
endif()

# rondo_check_containers(TARGET): operator[], front(), back() … of the standard library end the process out of bounds.
# For everything but the kernels and the methods of attention, whose loops are the time of an answer.
function(rondo_check_containers target)
  if(RONDO_HARDENED)
    target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
  endif()
endfunction()
