# SPDX-License-Identifier: Apache-2.0
# Cross build for NVIDIA Jetson: aarch64 with CUDA 13, from an x86 machine that has nvcc.
include(${CMAKE_CURRENT_LIST_DIR}/aarch64-linux-gnu.cmake)
set(RUNNEL_JETSON_TOOLKIT ${CMAKE_CURRENT_LIST_DIR}/../build/jetson-toolkit)
cmake_path(ABSOLUTE_PATH RUNNEL_JETSON_TOOLKIT NORMALIZE)
if(NOT EXISTS ${RUNNEL_JETSON_TOOLKIT}/bin/nvcc)
  message(FATAL_ERROR "No toolkit in ${RUNNEL_JETSON_TOOLKIT}. Run cmake/fetch-jetson-toolkit first.")
endif()
set(CMAKE_CUDA_COMPILER ${RUNNEL_JETSON_TOOLKIT}/bin/nvcc)
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
set(CUDAToolkit_ROOT ${RUNNEL_JETSON_TOOLKIT})
list(APPEND CMAKE_FIND_ROOT_PATH ${RUNNEL_JETSON_TOOLKIT} ${RUNNEL_JETSON_TOOLKIT}/targets/aarch64-linux)
