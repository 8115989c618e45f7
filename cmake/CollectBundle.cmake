# cmake -DPROGRAMS=a:b -DDESTINATION=folder -DOBJDUMP=objdump -P CollectBundle.cmake
# Makes the folder anew; see RallyBundle.cmake.
cmake_minimum_required(VERSION 3.25)
foreach(name PROGRAMS DESTINATION)
  if(NOT ${name})
    message(FATAL_ERROR "CollectBundle.cmake: -D${name}= is missing")
  endif()
endforeach()
string(REPLACE ":" ";" PROGRAMS "${PROGRAMS}")
if(OBJDUMP)
  set(CMAKE_GET_RUNTIME_DEPENDENCIES_COMMAND ${OBJDUMP})
endif()

file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${PROGRAMS}
  RESOLVED_DEPENDENCIES_VAR libraries
  UNRESOLVED_DEPENDENCIES_VAR missing
  CONFLICTING_DEPENDENCIES_PREFIX conflicts
  PRE_EXCLUDE_REGEXES
    "^ld-linux.*" "^linux-vdso.*" "^lib(c|m|dl|rt|pthread|resolv|util|anl|nsl|mvec)\\.so.*"
    "^libcuda\\.so.*" "^libnvidia.*" "^lib(cudart|cublas|cublasLt|nvrtc|cupti)\\.so.*")
if(missing)
  message(FATAL_ERROR "CollectBundle.cmake: these libraries were not found: ${missing}")
endif()
if(conflicts_FILENAMES)
  message(FATAL_ERROR "CollectBundle.cmake: found in two places: ${conflicts_FILENAMES}")
endif()

file(REMOVE_RECURSE ${DESTINATION})
file(COPY ${PROGRAMS} DESTINATION ${DESTINATION}/bin)
foreach(library ${libraries})
  file(COPY ${library} DESTINATION ${DESTINATION}/lib FOLLOW_SYMLINK_CHAIN)
endforeach()
list(LENGTH libraries count)
message(STATUS "${DESTINATION}: ${count} libraries")
