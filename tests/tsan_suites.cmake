# Read by ctest: adds a test for each suite of `program` that `filter` takes, and a test that fails for whatever of the
# filter takes none.

include(${CMAKE_CURRENT_LIST_DIR}/gtest_filter.cmake)

# add_suites(NAMES...): a report each, for tools/run_tests.sh to count.
function(add_suites)
  set(suites "")
  foreach(test IN LISTS ARGN)
    string(REGEX REPLACE "[.].*" "" suite ${test})
    list(APPEND suites ${suite})
    list(APPEND tests_of_${suite} ${test})
  endforeach()
  list(REMOVE_DUPLICATES suites)
  foreach(suite IN LISTS suites)
    string(REPLACE ";" ":" tests "${tests_of_${suite}}")
    string(REPLACE "/" "." test ${name}.${suite})
    add_test(${test} ${program} --gtest_filter=${tests})
    set_tests_properties(${test} PROPERTIES WORKING_DIRECTORY ${folder} TIMEOUT ${seconds_max}
      ENVIRONMENT "${environment};GTEST_OUTPUT=xml:${reports}/tests_${test}.xml")
  endforeach()
endfunction()

# expect_all_match(NAMES...): a suite that was renamed would run no more, and nobody would see it.
function(expect_all_match)
  string(REGEX REPLACE "-.*" "" taken "${filter}")
  without_match(lonely "${taken}" ${ARGN})
  foreach(pattern IN LISTS lonely)
    add_test("${name}: no test is named ${pattern}" /bin/false)
  endforeach()
endfunction()

if(EXISTS ${program})
  list_tests(all ${program} "${filter}" ${folder})
  add_suites(${all})
  expect_all_match(${all})
else()
  add_test(${name}_is_not_built ${program})
endif()
