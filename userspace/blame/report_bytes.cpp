#include "blame/report_bytes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "model/cgroup_name.h"

namespace oomcast {
namespace {

class Writer {
 public:
  static constexpr bool kReads = false;
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(const T& value) { out_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    out_ += text;
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Once something is wrong with the bytes, all that follows reads as nothing.
class Parser {
 public:
  static constexpr bool kReads = true;
  explicit Parser(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(T& value) {
    value = T{};
    if (!has(sizeof(value))) return;
    if constexpr (std::is_same_v<T, bool>)
      value = rest_[0] != 0;
    else
      std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
  }
  void operator()(std::string& text) {
    std::size_t size = count();
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  /// Of things of at least a byte each.
  std::size_t count() {
    std::uint32_t size = 0;
    (*this)(size);
    return has(size) ? size : 0;
  }
  void refuse() { good_ = false; }
  bool good() const { return good_; }
  bool done() const { return good_ && rest_.empty(); }

 private:
  bool has(std::size_t size) {
    good_ = good_ && size <= rest_.size();
    return good_;
  }
  std::string_view rest_;
  bool good_ = true;
};

// Each type's fields once, for both ways.
template <typename A, typename T>
void pass(A& a, T& value) {
  a(value);
}

template <typename A>
void pass(A& a, Bytes& value) {
  constexpr std::int64_t kMax = std::int64_t{1} << 56;  // sums of them do not overflow
  a(value.count);
  if constexpr (A::kReads)
    if (value.count < -kMax || value.count > kMax) a.refuse();
}

template <typename A, typename T>
void pass(A& a, std::optional<T>& value) {
  bool is = value.has_value();
  a(is);
  if (A::kReads) value.reset();
  if (A::kReads && is) value.emplace();
  if (value) pass(a, *value);
}

template <typename A, typename T>
void pass(A& a, std::vector<T>& values) {
  if constexpr (A::kReads) {
    for (std::size_t left = a.count(); left > 0 && a.good(); --left) pass(a, values.emplace_back());
  } else {
    a(static_cast<std::uint32_t>(values.size()));
    for (T& value : values) pass(a, value);
  }
}

template <typename A>
void pass(A& a, Arguments& arguments) {
  std::string bytes(arguments.bytes());
  a(bytes);
  if constexpr (A::kReads) arguments = Arguments::from_bytes(std::move(bytes));
}

template <typename A>
void pass(A& a, CgroupPtr& cgroup) {
  std::optional<CgroupRef> ref;
  if (cgroup) ref = *cgroup;
  bool is = ref.has_value();
  a(is);
  if (!is) return;
  if (!ref) ref.emplace();
  a(ref->id.hierarchy);
  a(ref->id.inode);
  a(ref->path);
  if constexpr (A::kReads) {
    ref->name = name_cgroup(ref->path);
    cgroup = std::make_shared<const CgroupRef>(*std::move(ref));
  }
}

template <typename A>
void pass(A& a, ProcessRef& p) {
  a(p.id.tgid);
  a(p.id.start_ticks);
  a(p.comm);
  pass(a, p.cmdline);
  pass(a, p.cmdline_source);
  a(p.cmdline_truncated);
  pass(a, p.uid);
  pass(a, p.ppid);
  pass(a, p.ns_pid);
  pass(a, p.cgroup);
}

template <typename A>
void pass(A& a, ProcessLevel& l) {
  pass(a, l.anon);
  pass(a, l.shmem);
  pass(a, l.uss);
  pass(a, l.hugetlb);
  pass(a, l.swap);
  a(l.faults);
}

template <typename A>
void pass(A& a, Frame& f) {
  a(f.kind);
  a(f.function);
  a(f.file);
  pass(a, f.line);
}

template <typename A>
void pass(A& a, Kept& k) {
  pass(a, k.bytes);
  pass(a, k.error);
  a(k.blocks);
  a(k.objects);
}

template <typename A>
void pass(A& a, Seconds& seconds) {
  double count = seconds.count();
  a(count);
  seconds = Seconds(count);
}

template <typename A>
void pass(A& a, KeptOfProcess& k) {
  pass(a, k.all);
  pass(a, k.outlived);
  pass(a, k.all_watched);
  pass(a, k.watched);
  a(k.calls_per_s);
  a(k.without_new);
}

template <typename A>
void pass(A& a, BlameSite& s) {
  pass(a, s.stack);
  pass(a, s.grown);
  pass(a, s.touched);
  pass(a, s.kept);
  pass(a, s.held_by);
  a(s.small_objects);
  a(s.adds);
  a(s.samples);
}

template <typename A>
void pass(A& a, BlameAddition& addition) {
  pass(a, addition.stack);
  a(addition.seen);
}

template <typename A>
void pass(A& a, BlameHolder& h) {
  a(h.holder.path);
  a(h.holder.type);
  a(h.holder.length);
  a(h.holder.added);
  a(h.holder.of);
  pass(a, h.holder.least);
  pass(a, h.holder.small);
  a(h.holder.containers);
  a(h.blocks);
  pass(a, h.additions);
}

template <typename A>
void pass(A& a, GrownType& t) {
  a(t.type);
  a(t.objects);
  a(t.added);
  pass(a, t.least);
}

template <typename A>
void pass(A& a, BlameHolders& h) {
  pass(a, h.all);
  a(h.cut);
  pass(a, h.types);
}

template <typename A>
void pass(A& a, BlameGpuSite& s) {
  pass(a, s.stack);
  pass(a, s.bytes);
  a(s.calls);
}

template <typename A>
void pass(A& a, ProcessRole& r) {
  a(r.kind);
  a(r.what);
  pass(a, r.of);
  pass(a, r.rank);
  a(r.workers);
}

template <typename A>
void pass(A& a, BlameProcess& p) {
  pass(a, p.process);
  a(p.exited);
  a(p.growth_unknown);
  pass(a, p.before);
  pass(a, p.after);
  pass(a, p.grown_anon);
  pass(a, p.grown_shmem);
  pass(a, p.grown_uss);
  pass(a, p.grown_hugetlb);
  pass(a, p.unshared);
  pass(a, p.unseen);
  pass(a, p.free_in_heap);
  pass(a, p.kept);
  a(p.why_not_kept);
  pass(a, p.sites);
  pass(a, p.holders);
  pass(a, p.gpu);
  a(p.python);
  pass(a, p.role);
}

// What the caller of Blame adds is not passed.
template <typename A>
void pass(A& a, BlameReport& r) {
  pass(a, r.window);
  pass(a, r.grown);
  pass(a, r.processes);
  a(r.watched_share);
  a(r.samples);
  a(r.incomplete_stacks);
  a(r.incomplete_python);
  a(r.misplaced_python);
  a(r.unnamed_frames);
  a(r.frames);
  a(r.not_noted);
  a(r.symbols_unread);
  pass(a, r.unread);
}

bool all_known(const Stack& stack) {
  return std::all_of(stack.begin(), stack.end(),
                     [](const Frame& f) { return f.kind <= Frame::Kind::python; });
}

bool known(ProcessRole::Kind kind) {
  return kind <= ProcessRole::Kind::worker;
}

}  // namespace

std::string encode_report(BlameReport report) {
  Writer writer;
  pass(writer, report);
  return writer.take();
}

std::optional<BlameReport> decode_report(std::string_view bytes) {
  Parser parser(bytes);
  BlameReport out;
  pass(parser, out);
  bool sane = parser.done() && out.window.count() >= 0 && out.watched_share >= 0 && out.watched_share <= 1;
  for (const BlameProcess& p : out.processes) {
    sane = sane && known(p.role.kind) &&
           (!p.process.cmdline_source || *p.process.cmdline_source <= CmdlineSource::exec);
    if (p.kept)
      for (double value : {p.kept->outlived.count(), p.kept->all_watched.count(), p.kept->watched.count(),
                           p.kept->calls_per_s})
        sane = sane && std::isfinite(value) && value >= 0;
    for (const BlameSite& site : p.sites) {
      sane = sane && (!site.held_by || (p.holders && *site.held_by < p.holders->all.size()));
      sane = sane && all_known(site.stack);
    }
    for (const BlameGpuSite& site : p.gpu) sane = sane && all_known(site.stack);
    if (p.holders)
      for (const BlameHolder& holder : p.holders->all)
        for (const BlameAddition& addition : holder.additions) sane = sane && all_known(addition.stack);
  }
  return sane ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace oomcast
