#include "present/stack_profile.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <protozero/pbf_writer.hpp>

#include "base/escape.h"
#include "present/blame.h"
#include "present/web_page.h"
#include "stream/cells.h"
#include "stream/json_parts.h"

namespace oomcast {

extern const std::optional<WebPage> kFlamePage;

namespace {

std::string process_name(const StackProfile::Row& row) {
  std::string name = escape_for_terminal(row.process);
  return row.pid ? fmt::format("{}[{}]", name, *row.pid) : name;
}

// ---- profile.proto -------------------------------------------------------------------------------------

// Field numbers in profile.proto.
enum : protozero::pbf_tag_type {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kFunction = 5,
  kStrings = 6,
  kTime = 9,
  kDuration = 10,
  kComment = 13,
  kDefaultType = 14,
};

std::string message(const std::function<void(protozero::pbf_writer&)>& fill) {
  std::string out;
  protozero::pbf_writer writer(out);
  fill(writer);
  return out;
}

/// Every item is written once, and referred to by its number, from 1 on.
class ProfileWriter {
 public:
  ProfileWriter() : out_(bytes_) { string(""); }

  std::int64_t string(const std::string& text) {
    auto [at, fresh] = strings_.try_emplace(text, static_cast<std::int64_t>(strings_.size()));
    if (fresh) texts_.push_back(text);
    return at->second;
  }

  void kind(protozero::pbf_tag_type field, const StackProfile::Kind& kind) {
    out_.add_message(field, message([&](auto& m) {
                       m.add_int64(1, string(kind.name));
                       m.add_int64(2, string(kind.unit));
                     }));
  }

  std::uint64_t location(const Frame& frame) {
    auto [at, fresh] = locations_.try_emplace(frame, locations_.size() + 1);
    if (!fresh) return at->second;
    bool native = frame.kind == Frame::Kind::native;
    std::uint64_t mapping = native && !frame.file.empty() ? mapping_of(frame.file) : 0;
    std::uint64_t function = function_of(frame);
    out_.add_message(kLocation, message([&, id = at->second](auto& m) {
                       m.add_uint64(1, id);
                       if (mapping) m.add_uint64(2, mapping);
                       m.add_message(4, message([&](auto& line) {
                                       line.add_uint64(1, function);
                                       if (frame.line) line.add_int64(2, *frame.line);
                                     }));
                     }));
    return at->second;
  }

  void sample(const StackProfile::Row& row) {
    std::vector<std::uint64_t> where;  // innermost first
    for (auto frame = row.stack.rbegin(); frame != row.stack.rend(); ++frame)
      where.push_back(location(*frame));
    where.push_back(location({Frame::Kind::native, process_name(row), {}, std::nullopt}));
    std::int64_t process_key = string("process"), process = string(escape_for_terminal(row.process));
    std::int64_t pid_key = string("pid");
    out_.add_message(kSample, message([&](auto& m) {
                       m.add_packed_uint64(1, where.begin(), where.end());
                       m.add_packed_int64(2, row.values.begin(), row.values.end());
                       m.add_message(3, message([&](auto& label) {
                                       label.add_int64(1, process_key);
                                       label.add_int64(2, process);
                                     }));
                       if (row.pid)
                         m.add_message(3, message([&](auto& label) {
                                         label.add_int64(1, pid_key);
                                         label.add_int64(3, *row.pid);
                                       }));
                     }));
  }

  protozero::pbf_writer& out() { return out_; }
  std::string finish() {
    for (const std::string& text : texts_) out_.add_string(kStrings, text);
    return std::move(bytes_);
  }

 private:
  std::uint64_t mapping_of(const std::string& file) {
    auto [at, fresh] = mappings_.try_emplace(file, mappings_.size() + 1);
    if (fresh) {
      std::int64_t name = string(escape_for_terminal(file));
      out_.add_message(kMapping, message([&, id = at->second](auto& m) {
                         m.add_uint64(1, id);
                         m.add_int64(5, name);
                         m.add_bool(7, true);  // has_functions: already symbolized
                       }));
    }
    return at->second;
  }
  std::uint64_t function_of(const Frame& frame) {
    auto [at, fresh] = functions_.try_emplace({frame.function, frame.file}, functions_.size() + 1);
    if (fresh) {
      std::int64_t name = string(frame.function.empty() ? "?" : escape_for_terminal(frame.function));
      std::int64_t file = string(escape_for_terminal(frame.file));
      out_.add_message(kFunction, message([&, id = at->second](auto& m) {
                         m.add_uint64(1, id);
                         m.add_int64(2, name);
                         m.add_int64(3, name);
                         m.add_int64(4, file);
                       }));
    }
    return at->second;
  }

  std::string bytes_;
  protozero::pbf_writer out_;
  std::map<std::string, std::int64_t> strings_;
  std::vector<std::string> texts_;
  std::map<Frame, std::uint64_t> locations_;
  std::map<std::string, std::uint64_t> mappings_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> functions_;
};

std::string gzip(const std::string& bytes) {
  constexpr int kWindowBitsOfGzip = 15 + 16;
  z_stream z{};
  if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindowBitsOfGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return bytes;  // readers also accept it uncompressed
  std::string out(deflateBound(&z, bytes.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  int end = deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return end == Z_STREAM_END ? out : bytes;
}

// ---- the page ------------------------------------------------------------------------------------------

constexpr std::size_t kMaxNodes = 6000, kMaxLabel = 160, kMaxLines = 40;
constexpr double kMinOfPage = 0.001;

struct Branch {
  const Frame* frame = nullptr;
  std::string name;
  std::vector<std::int64_t> values;
  std::map<std::string, Branch> children;

  void add(const std::vector<std::int64_t>& more) {
    values.resize(more.size());
    for (std::size_t i = 0; i < more.size(); ++i) values[i] += more[i];
  }
  /// The value for the width: the larger of two.
  std::int64_t width() const {
    return values.empty() ? 0 : std::max<std::int64_t>(0, *std::max_element(values.begin(), values.end()));
  }
};

class PageTree {
 public:
  explicit PageTree(std::int64_t whole) : whole_(whole) {}

  Json json(const Branch& branch) {
    Json out = {{"n", cut_middle(branch.name, kMaxLabel)}, {"w", branch.width()}, {"values", branch.values}};
    out["k"] = !branch.frame ? "process" : branch.frame->kind == Frame::Kind::python ? "python" : "native";
    std::vector<const Branch*> children;
    for (const auto& [name, child] : branch.children) children.push_back(&child);
    std::stable_sort(children.begin(), children.end(),
                     [](const Branch* a, const Branch* b) { return a->width() > b->width(); });
    Json list = Json::array();
    for (const Branch* child : children) {
      if (static_cast<double>(child->width()) < static_cast<double>(whole_) * kMinOfPage ||
          nodes_ >= kMaxNodes) {
        ++left_out_;
        continue;
      }
      ++nodes_;
      list.push_back(json(*child));
    }
    out["c"] = std::move(list);
    return out;
  }
  std::size_t left_out() const { return left_out_; }

 private:
  std::int64_t whole_;
  std::size_t nodes_ = 0, left_out_ = 0;
};

Json lines_json(const StackProfile& profile) {
  std::map<std::pair<std::string, std::string>, std::vector<std::int64_t>> sums;
  for (const StackProfile::Row& row : profile.rows) {
    const Frame* frame = culprit(row.stack);
    auto& sum = sums[{process_name(row), frame ? to_text(*frame) : "?"}];
    sum.resize(profile.kinds.size());
    for (std::size_t i = 0; i < sum.size() && i < row.values.size(); ++i) sum[i] += row.values[i];
  }
  using Line = decltype(sums)::value_type;
  std::vector<const Line*> lines;
  for (const Line& line : sums) lines.push_back(&line);
  auto weight = [&](const Line* line) {
    return profile.differs ? std::abs(line->second[1] - line->second[0]) : line->second[0];
  };
  std::stable_sort(lines.begin(), lines.end(),
                   [&](const Line* a, const Line* b) { return weight(a) > weight(b); });
  if (lines.size() > kMaxLines) lines.resize(kMaxLines);
  Json out = Json::array();
  for (const Line* line : lines)
    if (weight(line) > 0)
      out.push_back({{"process", cut_middle(line->first.first, kMaxLabel)},
                     {"line", cut_middle(line->first.second, kMaxLabel)},
                     {"values", line->second}});
  return out;
}

}  // namespace

StackProfile profile_of(const BlameReport& report, const ClockMap& clock, MonoTime now) {
  StackProfile out;
  out.title = fmt::format("{}: {} in {}", escape_for_terminal(report.scope), format_size(report.grown),
                          format_duration(report.window));
  // The names that heap profiles use for the first two.
  out.kinds = {{"inuse_space", "bytes"},
               {"inuse_objects", "count"},
               {"touched", "bytes"},
               {"kept", "bytes"},
               {"samples", "count"}};
  bool gpu = std::ranges::any_of(report.processes, [](const BlameProcess& p) { return !p.gpu.empty(); });
  if (gpu) out.kinds.push_back({"gpu_space", "bytes"});
  out.time = clock.wall(now);
  out.window = report.window;
  for (const BlameProcess& p : report.processes) {
    for (const BlameGpuSite& site : p.gpu)
      out.rows.push_back({p.process.comm, p.process.id.tgid, site.stack, {0, 0, 0, 0, 0, site.bytes.count}});
    for (const BlameSite& site : p.sites)
      out.rows.push_back({p.process.comm,
                          p.process.id.tgid,
                          site.stack,
                          {site.grown.count, static_cast<std::int64_t>(site.kept.objects), site.touched.count,
                           site.kept.bytes.count, static_cast<std::int64_t>(site.samples)}});
    for (auto [bytes, what] : {std::pair(p.unseen, kUnseenByFaults), std::pair(p.free_in_heap, kFreeInHeap)})
      if (bytes > Bytes{})
        out.rows.push_back({p.process.comm,
                            p.process.id.tgid,
                            {{Frame::Kind::native, std::string(what), {}, std::nullopt}},
                            {bytes.count, 0, 0, 0, 0}});
  }
  for (StackProfile::Row& row : out.rows) row.values.resize(out.kinds.size());
  out.notes = doubts_of(report);
  return out;
}

std::string to_folded(const StackProfile& profile) {
  // A semicolon in a name would start a new frame.
  auto clean = [](std::string text) {
    std::replace(text.begin(), text.end(), ';', ':');
    return text;
  };
  std::size_t kinds = profile.differs ? 2 : 1;
  std::string out;
  for (const StackProfile::Row& row : profile.rows) {
    auto end = row.values.begin() + static_cast<std::ptrdiff_t>(std::min(kinds, row.values.size()));
    if (std::all_of(row.values.begin(), end, [](std::int64_t v) { return v <= 0; })) continue;
    out += clean(process_name(row));
    for (const Frame& frame : row.stack) out += ";" + clean(to_text(frame));
    for (auto value = row.values.begin(); value != end; ++value) out += fmt::format(" {}", *value);
    out += "\n";
  }
  return out;
}

std::string to_pprof(const StackProfile& profile) {
  ProfileWriter writer;
  for (const StackProfile::Kind& kind : profile.kinds) writer.kind(kSampleType, kind);
  for (const StackProfile::Row& row : profile.rows) writer.sample(row);
  auto nanos = [](auto time) { return std::chrono::duration_cast<Nanos>(time).count(); };
  writer.out().add_int64(kTime, nanos(profile.time.time_since_epoch()));
  writer.out().add_int64(kDuration, nanos(profile.window));
  std::vector<std::int64_t> comments = {writer.string(profile.title)};
  for (const std::string& note : profile.notes) comments.push_back(writer.string(note));
  writer.out().add_packed_int64(kComment, comments.begin(), comments.end());
  if (!profile.kinds.empty())
    writer.out().add_int64(kDefaultType,
                           writer.string(profile.kinds[profile.differs ? profile.kinds.size() - 1 : 0].name));
  return gzip(writer.finish());
}

Result<std::string> to_html(const StackProfile& profile) {
  if (!kFlamePage) return Error::failed("this build has no HTML pages: configure with -DOOMCAST_HTML=ON");
  std::size_t kinds = profile.differs ? 2 : 1;
  Branch root;
  root.name = "all";
  for (const StackProfile::Row& row : profile.rows) {
    std::vector<std::int64_t> values(row.values.begin(),
                                     row.values.begin() + static_cast<std::ptrdiff_t>(kinds));
    if (std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v <= 0; })) continue;
    root.add(values);
    Branch* at = &root.children[process_name(row)];
    at->name = process_name(row);
    at->add(values);
    for (const Frame* frame : readable(row.stack)) {
      Branch& child = at->children[to_text(*frame)];
      child.name = to_text(*frame);
      child.frame = frame;
      child.add(values);
      at = &child;
    }
  }
  PageTree tree(root.width());
  Json page = {{"title", profile.title}, {"differs", profile.differs}, {"window_s", profile.window.count()}};
  page["tree"] = tree.json(root);
  page["lines"] = lines_json(profile);
  Json notes = Json::array();
  for (const std::string& note : profile.notes) notes.push_back(note);
  if (tree.left_out())
    notes.push_back(fmt::format("{} small branches are left out of the picture", tree.left_out()));
  page["notes"] = std::move(notes);
  page["time"] = format_rfc3339(profile.time);
  return to_html(*kFlamePage, "oomcast blame: " + profile.title, dump_ascii(page));
}

}  // namespace oomcast
