#include "collect/gpu_xids.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gpu_xid.skel.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "collect/files.h"
#include "collect/libbpf.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kLongestInfo = 4096;

class LoadedGpuXids final : public GpuXids {
 public:
  Status start(const std::string& btf_path) {
    LibbpfLog log;
    LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = btf_path.c_str());
    skeleton_.reset(gpu_xid_bpf__open_opts(&open_options));
    if (!skeleton_) return Error::from_errno("opening the program of Xids");
    if (int err = gpu_xid_bpf__load(skeleton_.get()))
      return Error::forbidden(
          fmt::format("the kernel refused the program: {} ({})", LibbpfLog::verdict(), std::strerror(-err)));
    link_.reset(bpf_program__attach(skeleton_->progs.on_xid));
    if (!link_ && errno == ENOENT)
      return Error::forbidden("this driver has no tracepoint nvidia_dev_xid, which came with 575.51");
    if (!link_) return Error::from_errno("attaching to the tracepoint nvidia_dev_xid");
    ring_.reset(ring_buffer__new(bpf_map__fd(skeleton_->maps.gpu_xids), &LoadedGpuXids::take, this, nullptr));
    if (!ring_) return Error::from_errno("opening the ring buffer of Xids");
    return Ok{};
  }

  void drain(const std::function<void(const wire::GpuXid&)>& sink) override {
    sink_ = &sink;
    ring_buffer__consume(ring_.get());
    sink_ = nullptr;
  }
  std::uint64_t lost() const override { return skeleton_->bss->oc_xids_lost + undecodable_; }

 private:
  static int take(void* self, void* data, std::size_t size) {
    auto& xids = *static_cast<LoadedGpuXids*>(self);
    auto xid = wire::decode_gpu_xid({static_cast<const std::byte*>(data), size});
    if (!xid)
      ++xids.undecodable_;
    else if (xids.sink_)
      (*xids.sink_)(*xid);
    return 0;
  }

  std::unique_ptr<gpu_xid_bpf, Destroys<gpu_xid_bpf__destroy>> skeleton_;
  Link link_;
  Ring ring_;
  const std::function<void(const wire::GpuXid&)>* sink_ = nullptr;
  std::uint64_t undecodable_ = 0;
};

}  // namespace

Result<std::unique_ptr<GpuXids>> GpuXids::open(const std::string& btf_path) {
  auto xids = std::make_unique<LoadedGpuXids>();
  if (auto ok = xids->start(btf_path); !ok) return ok.error();
  return std::unique_ptr<GpuXids>(std::move(xids));
}

std::optional<std::uint32_t> blamed_by_xid(std::string_view message) {
  constexpr std::string_view key = "pid=";
  auto at = message.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  message.remove_prefix(at + key.size());
  if (message.starts_with('\'')) message.remove_prefix(1);
  std::uint32_t pid = 0;
  auto [end, err] = std::from_chars(message.data(), message.data() + message.size(), pid);
  return err == std::errc{} && pid ? std::optional(pid) : std::nullopt;
}

std::optional<GpuUuid> gpu_at_bus(const Roots& roots, std::string_view bus) {
  // It becomes part of a path.
  if (bus.empty() || bus.find_first_not_of("0123456789abcdefABCDEF:.") != std::string_view::npos)
    return std::nullopt;
  std::string path = roots.at(fmt::format("/proc/driver/nvidia/gpus/{}/information", bus));
  auto text = read_file_at(AT_FDCWD, path.c_str(), kLongestInfo);
  auto uuid = text ? find_value(*text, "GPU UUID") : std::nullopt;
  return uuid ? parse_gpu_uuid(*uuid) : std::nullopt;
}

}  // namespace oomcast
