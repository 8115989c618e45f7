# rally_library(name SOURCES ... DEPS ...): a static library with the project's warnings.
# rally_test(name SOURCES ... DEPS ...): a GoogleTest program that ctest knows case by case.
# -Wrestrict: GCC 12 warns falsely about std::string operator+ (GCC bug 105651).
set(RALLY_WARNINGS -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wno-unused-parameter
                   -Wno-restrict)
set(RALLY_SANITIZE_FLAGS "")
if(RALLY_SANITIZE)
  set(RALLY_SANITIZE_FLAGS -fsanitize=${RALLY_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${RALLY_SANITIZE})
endif()

function(rally_target_defaults name)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${RALLY_WARNINGS}>
                                         $<$<COMPILE_LANGUAGE:CXX>:${RALLY_SANITIZE_FLAGS}>)
endfunction()

function(rally_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  rally_target_defaults(${name})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
endfunction()

function(rally_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  rally_target_defaults(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE RALLY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
