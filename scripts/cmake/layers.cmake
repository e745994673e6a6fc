# oomcast_headers_once(TARGET FROM HEADER...): with OOMCAST_UNITY the headers are compiled once, by the target FROM.
function(oomcast_headers_once target from)
  if(NOT OOMCAST_UNITY)
    return()
  endif()
  if(target STREQUAL from)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${from})
  endif()
endfunction()

# oomcast_unity(TARGET SOURCE...): with OOMCAST_UNITY its files are compiled together, in as many parts of the same size
# as it takes for at most 24 files each: in one for eight, it was half as much again to compile.
function(oomcast_unity target)
  list(LENGTH ARGN files)
  math(EXPR parts "(${files} + 23) / 24")
  math(EXPR size "(${files} + ${parts} - 1) / ${parts}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${OOMCAST_UNITY} UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# oomcast_layer(NAME [LEFT...]): the folder userspace/NAME as a library that may use the layers named after it.
# Data flows one way; tests/style checks that no include points the other way.
function(oomcast_layer name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  set(visibility PUBLIC)
  if(sources)
    add_library(oomcast_${name} STATIC ${sources})
    target_link_libraries(oomcast_${name} PRIVATE oomcast_flags)
    oomcast_unity(oomcast_${name} ${sources})
    set(headers_of oomcast_base)
    # Their unit tests are the long ones: optimised, and everything else compiles in half of the time.
    if(OOMCAST_SANITIZE AND name MATCHES "^(parse|forecast)$")
      target_compile_options(oomcast_${name} PRIVATE -O1)
      set(headers_of oomcast_parse)
    endif()
    oomcast_headers_once(oomcast_${name} ${headers_of} <algorithm> <array> <chrono> <functional> <map> <memory> <optional>
                         <set> <span> <string> <tuple> <unordered_map> <variant> <vector> <fmt/format.h>)
  else()
    add_library(oomcast_${name} INTERFACE)
    set(visibility INTERFACE)
  endif()
  target_include_directories(oomcast_${name} ${visibility} ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(left IN LISTS ARGN)
    target_link_libraries(oomcast_${name} ${visibility} oomcast_${left})
  endforeach()
endfunction()
