#include "blame/process_view.h"

#include <algorithm>

namespace oomcast {
namespace {

// In 3.14 compilers with tail calls make each instruction of the loop a function.
bool is_loop(const Frame& frame) {
  return frame.function.starts_with("_PyEval_EvalFrameDefault") || frame.function.starts_with("_TAIL_CALL_");
}

}  // namespace

Stack interleave(const std::vector<Frame>& native, const std::vector<std::optional<Frame>>& python,
                 const std::vector<wire::PythonFrame>& addresses, std::string_view interpreter, bool& fits) {
  Stack out;  // innermost first until the end
  std::size_t next = 0;
  fits = true;
  auto take_run = [&] {
    if (next >= python.size()) {
      fits = false;
      return false;
    }
    while (next < python.size()) {
      out.push_back(python[next].value_or(Frame{Frame::Kind::python, {}, {}, {}}));
      if (addresses[next++].outermost) break;
    }
    return true;
  };
  auto take_rest = [&] {
    if (next < python.size()) fits = false;
    while (next < python.size()) take_run();
  };
  bool loop_known = std::any_of(native.begin(), native.end(), is_loop);
  for (const Frame& frame : native) {
    if (!loop_known && !interpreter.empty() && frame.file == interpreter) take_rest();
    if (!is_loop(frame) || !take_run()) out.push_back(frame);
  }
  take_rest();
  std::reverse(out.begin(), out.end());
  return out;
}

ProcessView::ProcessView(const Roots& roots, std::uint32_t pid, MappedFiles& files, bool blind,
                         ProcessMemory::Guard guard)
    : blind_(blind), files_(files), memory_(std::make_unique<ProcessMemory>(roots, pid)) {
  memory_->set_guard(std::move(guard));
  open();
}

std::optional<ProcessMemory::Page> ProcessView::page_at(std::uint64_t address) const {
  return blind_ ? std::nullopt : memory_->page_at(address);
}

Result<FoundAllocator> ProcessView::find_allocator() const {
  if (blind_) return Error::failed("it may not be read");
  return oomcast::find_allocator(*memory_, maps_);
}

Heap ProcessView::heap(Bytes least) const {
  auto maps = blind_ ? Result<std::vector<Mapping>>(Error{}) : memory_->maps();
  if (!maps) return {};
  auto heap = std::find_if(maps->begin(), maps->end(), [](const Mapping& m) { return m.path == "[heap]"; });
  return heap == maps->end() ? Heap{} : read_heap(*memory_, heap->begin, heap->end, least);
}

std::optional<bool> ProcessView::block_held(std::uint64_t address, Bytes size, bool resized) const {
  return blind_ ? std::nullopt : oomcast::block_held(*memory_, address, size, resized);
}

PythonHeap* ProcessView::python_heap() {
  if (!heap_ && python_.python) heap_ = std::make_unique<PythonHeap>(*memory_, *python_.python);
  return heap_.get();
}

void ProcessView::open() {
  if (blind_) return;
  auto maps = memory_->maps();
  if (!maps || maps->empty()) return;  // keep what is known
  maps_ = *std::move(maps);
  unwinder_ = std::make_unique<Unwinder>(*memory_, maps_, files_);
  symbols_ = std::make_unique<Symbols>(*memory_, maps_, files_);
  if (python_.python) return;
  python_ = find_python(*memory_, maps_);
  if (!python_.python) return;
  memory_->set_file(std::move(python_.file));
  code_.emplace(*memory_, *python_.python);
}

bool ProcessView::is_mapped(std::uint64_t address) const {
  auto after = std::upper_bound(maps_.begin(), maps_.end(), address,
                                [](std::uint64_t a, const Mapping& m) { return a < m.begin; });
  return after != maps_.begin() && address < std::prev(after)->end;
}

ReadStack ProcessView::read(const wire::UserStack& at, MonoTime now) {
  ReadStack out;
  Unwinder::Frames native;
  auto unwind = [&] {
    native = unwinder_ ? unwinder_->unwind(at.registers, at.stack)
                       : Unwinder::Frames{{at.registers.back()}, false};
    return native.complete || std::all_of(native.addresses.begin(), native.addresses.end(),
                                          [&](std::uint64_t a) { return is_mapped(a); });
  };
  if (!unwind() && now >= next_open_) {
    next_open_ = now + std::chrono::seconds(1);
    open();
    unwind();
  }
  out.complete = native.complete;
  std::vector<Frame> named;
  for (std::uint64_t address : native.addresses) {
    named.push_back(symbols_ ? symbols_->resolve(address) : Frame{});
    out.unnamed += named.back().function.empty();
  }
  std::vector<std::optional<Frame>> python;
  for (const wire::PythonFrame& frame : at.python) {
    python.push_back(code_ ? code_->resolve(frame) : std::nullopt);
    out.python_complete &= python.back().has_value();
  }
  bool fits = true;
  out.frames =
      interleave(named, python, at.python, python_.python ? python_.python->file : std::string_view(), fits);
  out.python_placed = fits;
  bool expected = python_.python.has_value();
  out.python_complete &=
      at.python_state != wire::PythonState::cut && !(expected && at.python_state == wire::PythonState::none);
  return out;
}

}  // namespace oomcast
