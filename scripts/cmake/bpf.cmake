# oomcast_bpf(TARGET FILE...): compiles each BPF source, links them into one object and generates its skeleton.
# The few kernel types used are declared in bpf/kernel.bpf.h with CO-RE relocations, so no vmlinux.h is needed.
find_program(CLANG clang REQUIRED)
find_program(BPFTOOL bpftool PATHS /usr/sbin REQUIRED)
find_program(LLVM_STRIP NAMES llvm-strip llvm-strip-14 REQUIRED)

function(oomcast_bpf target)
  set(objects)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  foreach(source IN LISTS ARGN)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CLANG} -target bpf -mcpu=v3 -O2 -g -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter
              -D__TARGET_ARCH_x86 -isystem /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
              -ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -fdebug-compilation-dir=.
              -I${CMAKE_CURRENT_SOURCE_DIR} -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      COMMAND ${LLVM_STRIP} -g ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} ${headers}
      COMMENT "BPF ${source}")
    list(APPEND objects ${object})
  endforeach()
  set(linked ${CMAKE_CURRENT_BINARY_DIR}/${target}.bpf.o)
  set(skeleton ${CMAKE_CURRENT_BINARY_DIR}/${target}.skel.h)
  add_custom_command(
    OUTPUT ${skeleton} ${linked}
    COMMAND ${BPFTOOL} gen object ${linked} ${objects}
    COMMAND ${BPFTOOL} gen skeleton ${linked} name ${target}_bpf > ${skeleton}
    DEPENDS ${objects}
    COMMENT "skeleton ${target}.skel.h")
  add_custom_target(${target}_skeleton DEPENDS ${skeleton})
  add_dependencies(generated_sources ${target}_skeleton)
  set(${target}_SKELETON_DIR ${CMAKE_CURRENT_BINARY_DIR} CACHE INTERNAL "")
  set(${target}_BPF_OBJECT ${linked} CACHE INTERNAL "")
endfunction()
