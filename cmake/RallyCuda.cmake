# Sets RALLY_HAVE_CUDA and, where it is on, enables the language and defines rally_cuda_runtime.
#
# The runtime is linked statically and cuBLASLt is loaded when a CUDA device is opened
# (kernels/cuda/cublas_lt.h), so the programs start on a machine without CUDA. The same goes for
# the driver, which cudart loads itself.
set(RALLY_HAVE_CUDA OFF)
if(RALLY_CUDA STREQUAL "OFF")
  return()
endif()
if(NOT RALLY_CUDA MATCHES "^(AUTO|ON)$")
  message(FATAL_ERROR "RALLY_CUDA is \"${RALLY_CUDA}\", not AUTO, ON or OFF")
endif()

set(CMAKE_CUDA_ARCHITECTURES ${RALLY_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(RALLY_CUDA STREQUAL "ON")
    message(FATAL_ERROR "RALLY_CUDA is ON, but no CUDA compiler was found: put nvcc on PATH or set "
                        "CUDACXX")
  endif()
  message(STATUS "CUDA: no compiler, host device only")
  return()
endif()
if(CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
enable_language(CUDA)
# CMake 3.25, Debian 12's, does not know yet that nvcc has C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit 12.8 REQUIRED)
# Warning 2810: nvcc takes each assignment to an absl::Status for a result that is ignored.
string(APPEND CMAKE_CUDA_FLAGS " --diag-suppress=2810 --Werror=all-warnings")
set(RALLY_HAVE_CUDA ON)
message(STATUS "CUDA: ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")

add_library(rally_cuda_runtime INTERFACE)
target_include_directories(rally_cuda_runtime SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(rally_cuda_runtime INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
