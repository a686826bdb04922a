# What a filter of GoogleTest takes.

# matches(OUT NAME PATTERN): PATTERN as GoogleTest reads it.
function(matches out name pattern)
  string(REPLACE "." "[.]" regex "${pattern}")
  string(REPLACE "*" ".*" regex "${regex}")
  string(REPLACE "?" "." regex "${regex}")
  set(${out} FALSE PARENT_SCOPE)
  if(name MATCHES "^${regex}$")
    set(${out} TRUE PARENT_SCOPE)
  endif()
endfunction()

# list_tests(OUT PROGRAM FILTER FOLDER): the names of all tests of the program that the filter takes, SUITE.TEST. It runs
# in the folder.
function(list_tests out program filter folder)
  execute_process(COMMAND ${program} --gtest_list_tests --gtest_filter=${filter} --gtest_output= WORKING_DIRECTORY ${folder}
    OUTPUT_VARIABLE text ERROR_VARIABLE text_of_error RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${program} must list its tests: ${status} ${text_of_error}")
  endif()
  string(REGEX REPLACE "  # [^\n]*" "" text "${text}")  # the values of parameters
  string(REPLACE "\n" ";" lines "${text}")
  set(names "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^([A-Za-z0-9_/]+)[.]$")
      set(suite ${CMAKE_MATCH_1})
    elseif(line MATCHES "^  ([A-Za-z0-9_/]+)$")
      list(APPEND names ${suite}.${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# without_match(OUT FILTER NAMES...): the patterns of the filter that none of the names matches. What it leaves out, behind
# its "-", counts as well.
function(without_match out filter)
  string(REGEX REPLACE "[:-]" ";" patterns "${filter}")
  set(lonely "")
  foreach(pattern IN LISTS patterns)
    set(found FALSE)
    foreach(test IN LISTS ARGN)
      matches(found ${test} ${pattern})
      if(found)
        break()
      endif()
    endforeach()
    if(NOT found)
      list(APPEND lonely ${pattern})
    endif()
  endforeach()
  set(${out} "${lonely}" PARENT_SCOPE)
endfunction()
