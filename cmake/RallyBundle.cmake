# The target "bundle": one folder, <build>/bundle, that can be moved to another machine.
#
#   bin/  the programs        lib/  the shared libraries that they need
#
# Left out are glibc's own libraries, which must be the machine's, and the GPU driver and CUDA
# libraries, which are loaded when a CUDA device is opened. The programs look for lib/ beside their
# own folder. DT_RPATH and not DT_RUNPATH, since only that holds for the libraries' libraries too.
set(RALLY_BUNDLE_PROGRAMS "")
set(RALLY_BUNDLE_TARGETS "")
foreach(program rally-server rally decode_bench engine_bench)
  if(TARGET ${program})
    set_property(TARGET ${program} APPEND PROPERTY BUILD_RPATH "$ORIGIN/../lib")
    target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
    list(APPEND RALLY_BUNDLE_PROGRAMS $<TARGET_FILE:${program}>)
    list(APPEND RALLY_BUNDLE_TARGETS ${program})
  endif()
endforeach()

list(JOIN RALLY_BUNDLE_PROGRAMS ":" RALLY_BUNDLE_PROGRAMS)
add_custom_target(bundle
  COMMAND ${CMAKE_COMMAND} -DPROGRAMS=${RALLY_BUNDLE_PROGRAMS} -DOBJDUMP=${CMAKE_OBJDUMP}
          -DDESTINATION=${CMAKE_BINARY_DIR}/bundle -P ${CMAKE_CURRENT_LIST_DIR}/CollectBundle.cmake
  DEPENDS ${RALLY_BUNDLE_TARGETS}
  COMMENT "Collecting ${CMAKE_BINARY_DIR}/bundle"
  VERBATIM)
