// The kernel program that reads the NVIDIA driver's calls. Loaded while such a device is in use; a machine
// without one never makes it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "parse/gpu_calls.h"
#include "wire/records.h"

namespace oomcast {

struct GpuSourceOptions {
  std::string btf_path;  // the kernel's own BTF
  std::optional<std::uint32_t> uvm_major;
  std::optional<GpuDriverVersion> version;
  wire::Units units;
  /// What read_tracepoint_ids gave for GpuSource::tracepoints(): reading them needs more rights than loading.
  std::map<std::string, std::uint64_t> tracepoint_ids;
  /// Files of a stand-in for the driver, for tests.
  struct TestFile {
    std::uint64_t device, inode;
    wire::GpuCall::Device kind;
  };
  std::vector<TestFile> test_files;
  /// Told where each call that asks for memory was made, behind it: a record as wire::decode_gpu_stack()
  /// takes it. Empty: nobody wants to know, and nothing is copied.
  std::function<void(std::span<const std::byte> record)> on_stack;
  /// Told the Python lines of such a call, behind it, where on_stack is empty and `pythons` is the map that
  /// BpfSource::set_python() writes to.
  std::function<void(const wire::DyingCode&)> on_code;
  int pythons = -1;
};

class GpuSource {
 public:
  /// By exit probes on ioctl, mmap and munmap alone where the kernel traces functions; else by their
  /// tracepoints (about 70 ns for each system call of the machine); else by a program that each system call
  /// passes (about 110 ns). Error::forbidden: none of them.
  static Result<std::unique_ptr<GpuSource>> load(const GpuSourceOptions& options);
  virtual ~GpuSource() = default;

  /// Whose ids make the second way possible.
  static std::vector<std::string> tracepoints();

  /// "fexit", "tracepoints" or "sys_exit".
  virtual std::string hook() const = 0;
  /// Becomes readable with each call.
  virtual int fd() const = 0;
  /// Reads at most `most` calls, so that a process that makes them without end cannot keep the reader busy. Returns
  /// whether more wait.
  virtual bool drain(const std::function<void(const wire::GpuCall&)>& sink, std::size_t most) = 0;
  /// nvidia-uvm was loaded, or the version is known now.
  virtual void set_driver(std::optional<std::uint32_t> uvm_major,
                          std::optional<GpuDriverVersion> version) = 0;
  /// Whose the va_spaces of nvidia-uvm are is learned from now on, for gpu_pages.h: `tag` is what the low
  /// bits of their files' private data are.
  virtual void learn_va_spaces(int tag) = 0;
  /// The map that has them.
  virtual int va_spaces() const = 0;
  /// The frames of this process, and of children that it forks, are in its stacks from now on.
  /// `layout`: a wire::PythonLayout, encoded.
  virtual void set_python(std::uint32_t tgid, std::span<const std::byte> layout) = 0;
  /// A process ended.
  virtual void forget(std::uint32_t tgid) = 0;
  /// Calls that found the ring full, or could not be followed, or were made while a program of theirs ran on
  /// that CPU, since load.
  virtual std::uint64_t lost() const = 0;
  /// Python lines of calls that found no room in the half of the ring that they may fill.
  virtual std::uint64_t code_lost() const = 0;
  virtual std::uint64_t undecodable() const = 0;
};

}  // namespace oomcast
