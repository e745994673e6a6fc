// oomcast report [ID]: the post-mortem of an episode in the store, or in a recording.
#include "present/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "app/commands.h"
#include "app/output_file.h"
#include "app/tracing.h"
#include "base/escape.h"
#include "base/print.h"
#include "base/unique_fd.h"
#include "present/report_html.h"
#include "store/store.h"

namespace oomcast {
namespace {

Result<std::string> render(const PostMortem& report, Format format, bool color) {
  switch (format) {
    case Format::json:
      return to_json(report);
    case Format::markdown:
      return to_markdown(report);
    case Format::html:
      return to_html(report);
    default:
      break;
  }
  return to_text(report, TextStyle{color});
}

}  // namespace

Result<int> report(const Options& options) {
  if (options.store.path.empty()) return Error::usage("report: --store none has nothing to read");
  auto store = Store::open(options.store.path);
  if (!store) return store.error();
  std::optional<std::string> id;
  if (!options.report.id.empty()) id = options.report.id;
  auto episode = store->episode(id);
  if (!episode) return episode.error();
  bool color = options.report.file.empty() && Output(options).color();
  auto text = render(make_post_mortem(*std::move(episode)), options.output.format, color);
  if (!text) return text.error();
  if (!options.report.file.empty() && options.report.file != "-") {
    auto file = OutputFile::open(options.report.file);
    if (!file) return file.error();
    if (auto ok = file->write(*text); !ok) return ok.error();
    return 0;
  }
  if (!print(stdout, *text)) return Error::failed("stdout was closed or is full");
  return 0;
}

}  // namespace oomcast
