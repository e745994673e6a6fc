// Any bytes as what a process that reads strangers' memory answers: it may be a stranger's by then.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "app/reader.h"
#include "collect/procfs.h"
#include "present/blame.h"
#include "present/blame_json.h"
#include "present/stack_profile.h"

namespace {

using namespace oomcast;

std::string lines_of(const BlameReport& report) {
  std::string out;
  write_report(report, [&](std::string_view line) { out += line; });
  return out;
}

void show(const BlameReport& report) {
  (void)to_text(report);
  (void)to_json(report, ClockMap{}, MonoTime{});
  (void)to_folded(profile_of(report, ClockMap{}, MonoTime{}));
}

BlameReport example() {
  BlameReport out;
  out.window = Seconds(5);
  out.samples = 9;
  BlameProcess p;
  p.process.id = {4711, 99};
  p.process.comm = "python3";
  p.process.cmdline = {"python3", "train.py"};
  p.process.cgroup = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, 7}, "/job", name_cgroup("/job")});
  p.anon = p.own = MiB(5);
  p.grown_anon = out.grown = MiB(9);
  p.sites.push_back({{{Frame::Kind::native, "main", "/usr/bin/python3", {}},
                      {Frame::Kind::python, "step", "/job/train.py", 50}},
                     MiB(8),
                     MiB(9),
                     9});
  out.processes = {p, p};
  out.unread = {"java[12]"};
  return out;
}

}  // namespace

// Puts an example of each kind into the first corpus.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    std::string corpus = (*argv)[i];
    if (corpus.starts_with('-')) continue;
    std::ofstream(corpus + "/arguments") << '\0' << std::string_view("python3\0train.py\0", 17);
    std::ofstream(corpus + "/json") << '\1' << to_json(example(), ClockMap{}, MonoTime{});
    std::ofstream(corpus + "/report") << '\2' << lines_of(example());
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0: {
      constexpr std::size_t kMax = 4096;
      if (joined(parse_cmdline(rest, kMax)).size() > kMax) std::abort();
      break;
    }
    case 1:
      if (auto report = parse_blame(rest, "a look")) show(*report);
      break;
    default:
      ReportReader reader(1 << 20);
      reader.add(rest);
      auto report = reader.take();
      if (!report) break;
      // What was read is written as it was read.
      std::string written = lines_of(*report);
      ReportReader second(written.size());
      second.add(written);
      auto again = second.take();
      if (!again || lines_of(*again) != written) std::abort();
      show(*report);
  }
  return 0;
}
