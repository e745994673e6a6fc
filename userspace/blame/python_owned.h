// What an object of a Python program takes together with all that nothing else refers to: what goes with it.
#pragma once

#include <cstdint>
#include <map>

#include "blame/python_objects.h"

namespace oomcast {

struct OwnedBytes {
  double all = 0;    // of objects, without the blocks of C code
  double small = 0;  // of that in the interpreter's own pools, which have blocks of up to 512 bytes
  std::map<std::uint64_t, double> blocks{};  // what C code has of glibc's malloc() for them, by address
};

/// Follows what has no more references (ob_refcnt, CPython 3.8 to 3.15) than it meets, up to 128 objects, of
/// a container with more elements than a few a sample of them, which stands for all. Of what C code knows it
/// follows pointers from the object to blocks of malloc(), by up to two small ones (a tensor, its storage,
/// the data): a block that lives has the size at its head that the next one fits. Who else points there
/// cannot be counted: blocks that two objects lead to are for the caller to leave out. About 1 µs an object,
/// at most 0.5 ms. Zeros: no object stands there.
OwnedBytes owned_bytes(PythonReader& reader, std::uint64_t object);
/// Bytes of the block of glibc's malloc() (2.26 to 2.42) at this address; 0: none lives there, or it cannot
/// be read.
std::uint64_t living_block(PresentPages& pages, std::uint64_t address);

}  // namespace oomcast
