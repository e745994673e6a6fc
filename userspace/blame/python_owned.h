// The size of a Python object with everything that only it refers to: what is freed with it.
#pragma once

#include <cstdint>
#include <map>

#include "blame/python_objects.h"

namespace oomcast {

struct OwnedBytes {
  double all = 0;    // of Python objects, without blocks of C code
  double small = 0;  // the part in the interpreter's own pools (blocks of up to 512 bytes)
  std::map<std::uint64_t, double> blocks{};  // malloc() blocks of C code (glibc), by address
};

/// Follows objects whose references (ob_refcnt, CPython 3.8 to 3.15) were all found on the way, up to 128
/// objects; of a container with more than a few elements a sample, scaled up. For types of C code it follows
/// pointers from the object to malloc() blocks, through up to two small ones (a tensor, its storage, the
/// data): a block is live if the size in its header fits the next block. Other pointers to such a block
/// cannot be counted: the caller must drop blocks that two objects lead to. About 1 µs an object, at most 0.5
/// ms. Zeros: no object there.
OwnedBytes owned_bytes(PythonReader& reader, std::uint64_t object);
/// Size of the block of glibc's malloc() (2.26 to 2.42) at this address; 0: no live block, or unreadable.
std::uint64_t living_block(PresentPages& pages, std::uint64_t address);

}  // namespace oomcast
