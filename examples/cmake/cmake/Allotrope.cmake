# Allocation budgets for CTest. Copy this file into your project and include it after
# enable_testing():
#
#   allotrope_add_test(NAME parse COMMAND bench parse)
#
# adds the CTest test `parse`, which runs the program. Where Allotrope is installed, the CTest
# test `allotrope` also records all these programs and compares what they allocate with the
# numbers in allotrope-budgets, beside the project's CMakeLists.txt. Nobody else needs it.
#
#   cmake --build build --target allotrope          what has changed
#   cmake --build build --target allotrope-accept   the numbers are the new budgets
#
# OPTIONS are keys of the test in allotrope.toml, such as "runs = 5" "gate = ['bytes']".
# ALLOTROPE_DEFAULTS, a list, has those of all tests. Set it before including this file.

include_guard(GLOBAL)
find_program(ALLOTROPE allotrope DOC "The command of Allotrope, the allocation gate")
mark_as_advanced(ALLOTROPE)

function(allotrope_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME" "COMMAND;OPTIONS")
  if(NOT test_NAME OR NOT test_COMMAND OR test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "write allotrope_add_test(NAME name COMMAND target [argument]... [OPTIONS line...])")
  endif()
  add_test(NAME ${test_NAME} COMMAND ${test_COMMAND})
  list(POP_FRONT test_COMMAND program)
  if(TARGET ${program})
    set_property(GLOBAL APPEND PROPERTY ALLOTROPE_PROGRAMS ${program})
    set(program "$<TARGET_FILE:${program}>")
  endif()
  set(words "'${program}'")
  foreach(word IN LISTS test_COMMAND)
    string(APPEND words ", '${word}'")
  endforeach()
  list(JOIN test_OPTIONS "\n" options)
  set_property(GLOBAL APPEND_STRING PROPERTY ALLOTROPE_TESTS
    "\n[tests.'${test_NAME}']\ncommand = [${words}]\n${options}\n")
endfunction()

# Writes the configuration, when all tests are known.
function(_allotrope_finish)
  get_property(tests GLOBAL PROPERTY ALLOTROPE_TESTS)
  if(NOT ALLOTROPE OR NOT tests)
    return()
  endif()
  set(config "${PROJECT_BINARY_DIR}/allotrope.toml")
  get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(multi_config)
    set(config "${PROJECT_BINARY_DIR}/$<CONFIG>/allotrope.toml")
  endif()
  list(JOIN ALLOTROPE_DEFAULTS "\n" defaults)
  file(GENERATE OUTPUT "${config}" CONTENT
"# Written by Allotrope.cmake.
budgets = '${PROJECT_SOURCE_DIR}/allotrope-budgets'

[defaults]
${defaults}
${tests}")
  set(command "${ALLOTROPE}" test --config "${config}")
  add_test(NAME allotrope COMMAND ${command} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  add_custom_target(allotrope COMMAND ${command}
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" USES_TERMINAL VERBATIM)
  add_custom_target(allotrope-accept COMMAND ${command} --accept
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" USES_TERMINAL VERBATIM)
  get_property(programs GLOBAL PROPERTY ALLOTROPE_PROGRAMS)
  if(programs)
    add_dependencies(allotrope ${programs})
    add_dependencies(allotrope-accept ${programs})
  endif()
endfunction()
cmake_language(DEFER CALL _allotrope_finish)
