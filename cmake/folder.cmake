# Read once a target instead of once a file; a file still includes what it uses.
set(RONDO_STANDARD_HEADERS <algorithm> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view> <utility>
  <variant> <vector>)

# rondo_folder(NAME PUBLIC libraries... PRIVATE libraries...): the static library of one top-level folder, made of every
# .cpp below it; an interface library while a folder holds headers only.
function(rondo_folder name)
  cmake_parse_arguments(link "" "" "PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/kernels/cuda/")
  if(sources)
    add_library(rondo_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_precompile_headers(rondo_${name} PRIVATE ${RONDO_STANDARD_HEADERS})
    target_link_libraries(rondo_${name} PRIVATE ${link_PRIVATE})
    if(NOT name STREQUAL kernels)
      rondo_check_containers(rondo_${name})
    endif()
  else()
    add_library(rondo_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(rondo::${name} ALIAS rondo_${name})
  target_include_directories(rondo_${name} ${scope} $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
    $<INSTALL_INTERFACE:include>)
  target_compile_features(rondo_${name} ${scope} cxx_std_20)
  target_link_libraries(rondo_${name} ${scope} ${link_PUBLIC})
endfunction()

# rondo_unity(TARGET GROUP files...): these files are one translation unit, for most of their time goes into headers and
# templates that they share. Names in their anonymous namespaces must differ.
function(rondo_unity target group)
  if(RONDO_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${group})
  endif()
endfunction()
