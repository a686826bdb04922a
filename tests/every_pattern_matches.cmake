# A test: each pattern of a filter must take a test of the program. A suite that was renamed would run no more, and nobody
# would see it.
#   cmake -DPROGRAM=… -DFILTER=… -DFOLDER=… -P every_pattern_matches.cmake
include(${CMAKE_CURRENT_LIST_DIR}/gtest_filter.cmake)
if("${FILTER}" STREQUAL "")
  message(FATAL_ERROR "there is no filter")
endif()
list_tests(all ${PROGRAM} "*" ${FOLDER})
without_match(lonely "${FILTER}" ${all})
if(lonely)
  list(JOIN lonely ", " lonely)
  message(FATAL_ERROR "no test of ${PROGRAM} is named ${lonely}")
endif()
