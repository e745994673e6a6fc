// oomcast's kernel programs, loaded once and attached in any selection, with a reader on their rings.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

struct bpf_link;
struct bpf_program;
struct floor_bpf;
struct gpu_bpf;
struct oomcast_bpf;
struct ring_buffer;

struct ProgramCost {
  std::string name;
  std::uint64_t runs = 0;
  std::uint64_t run_ns = 0;
};

class Programs {
 public:
  Programs() = default;
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;
  ~Programs();

  /// Loads everything this kernel can load and starts to read the rings. False, with the reason on stderr, if
  /// it cannot.
  bool load();

  /// Attaches what `pieces` names, separated by commas:
  ///   default           every tracepoint but rss_stat
  ///   rss               on_rss_stat
  ///   only:PROGRAM      one tracepoint program
  ///   floor:TRACEPOINT  an empty program on rss_stat or sys_exit
  ///   clock:NS          on_clock every NS on each CPU
  ///   gpu               what follows the NVIDIA driver on this kernel
  /// False, with the reason on stderr, if one of them cannot be attached.
  bool attach(std::string_view pieces);
  void detach();

  /// The kernel's own account of each program, since load; counted only between count_runs(true) and (false).
  bool count_runs(bool on);
  std::vector<ProgramCost> costs() const;

  std::uint64_t records() const { return records_; }
  std::uint64_t reader_cpu_ns() const;
  std::uint64_t lost() const;

 private:
  bool attach_piece(std::string_view piece);
  bool load_gpu(std::string_view sections);
  bool attach_gpu();
  bool attach_clocks(std::uint64_t period_ns);
  bool keep(bpf_link* link, const char* what);
  void read_rings();

  oomcast_bpf* oomcast_ = nullptr;
  floor_bpf* floor_ = nullptr;
  gpu_bpf* gpu_ = nullptr;
  std::map<std::string, std::uint64_t> tracepoint_ids_;
  std::vector<bpf_link*> links_;
  ring_buffer* rings_ = nullptr;
  std::atomic<std::uint64_t> records_{0};
  std::atomic<bool> stop_{false};
  std::thread reader_;
  int stats_fd_ = -1;
};
