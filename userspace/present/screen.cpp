#include "present/screen.h"

#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string_view>

#include "base/escape.h"
#include "present/idle_rows.h"
#include "present/recent_kills.h"
#include "present/table.h"

// Included last: its macros have common names, such as lines and columns.
#include <term.h>

namespace oomcast {
namespace {

enum ColorPair : short { kWarnPair = 1, kAlertPair };
constexpr wint_t kCtrlC = 3, kCtrlH = 8, kNewline = '\n', kCtrlL = 12, kReturn = '\r', kEscape = 27,
                 kDelete = 127;
constexpr std::ptrdiff_t kFar = std::numeric_limits<std::ptrdiff_t>::max() / 2;
constexpr std::size_t kLongestFilter = 200;

attr_t attributes(Style style, bool color) {
  switch (style) {
    case Style::dim:
      return A_DIM;
    case Style::strong:
      return A_BOLD;
    case Style::warn:
      return color ? static_cast<attr_t>(COLOR_PAIR(kWarnPair)) : A_BOLD;
    case Style::alert:
      return A_BOLD | (color ? static_cast<attr_t>(COLOR_PAIR(kAlertPair)) : A_UNDERLINE);
    case Style::selected:
      return A_REVERSE;
    case Style::normal:
      break;
  }
  return A_NORMAL;
}

// Checks curses' requirements first: initscr() would exit the process.
Status check_terminal() {
  constexpr std::string_view instead = "pipe the output for lines of text, or use 'oomcast trace'";
  for (int fd : {STDIN_FILENO, STDOUT_FILENO})
    if (!isatty(fd))
      return Error::failed(fmt::format("the live screen needs a terminal and standard {} is none: {}",
                                       fd == STDIN_FILENO ? "input" : "output", instead));
  const char* term = getenv("TERM");
  std::string name = escape_for_terminal(term ? term : "");
  int why = 0;
  if (name.empty() || setupterm(nullptr, STDOUT_FILENO, &why) != OK)
    return Error::failed(
        fmt::format("the live screen does not know the terminal type '{}': set TERM, for example "
                    "TERM=xterm-256color, or {}",
                    name, why == -1 ? "install the terminfo database (ncurses-base)" : instead));
  bool places_text = tigetstr("cup") != nullptr && tigetstr("clear") != nullptr;
  del_curterm(set_curterm(nullptr));
  if (!places_text)
    return Error::failed(
        fmt::format("the live screen cannot place text on a terminal of type '{}': {}", name, instead));
  return Ok{};
}

std::string utf8(wint_t code) {
  auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  std::uint32_t c = code;
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 0x3f))};
  if (c < 0x10000) return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 0x3f)), byte(0x80 | (c >> 6 & 0x3f)),
          byte(0x80 | (c & 0x3f))};
}

void drop_last_character(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  if (!text.empty()) text.pop_back();
}

// Curses notices a resize only when it reads keys.
void follow_resize() {
  winsize now{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) == 0 && now.ws_row > 0 && now.ws_col > 0 &&
      is_term_resized(now.ws_row, now.ws_col))
    resizeterm(now.ws_row, now.ws_col);
}

// Sequences that most terminals send, whatever TERM says: otherwise the Escape went back a page, and the
// following characters acted as keys.
void know_usual_keys() {
  struct Key {
    const char* sent;
    int is;
  };
  for (const Key& key :
       {Key{"\033[A", KEY_UP}, Key{"\033[B", KEY_DOWN}, Key{"\033OA", KEY_UP}, Key{"\033OB", KEY_DOWN},
        Key{"\033[5~", KEY_PPAGE}, Key{"\033[6~", KEY_NPAGE}, Key{"\033[H", KEY_HOME}, Key{"\033[F", KEY_END},
        Key{"\033OH", KEY_HOME}, Key{"\033OF", KEY_END}, Key{"\033[1~", KEY_HOME}, Key{"\033[4~", KEY_END}})
    define_key(key.sent, key.is);
}

}  // namespace

struct Screen::State {
  SCREEN* terminal = nullptr;
  ClockMap clock;
  bool color = false;
  View view;
  Overview overview;
  IdleRows idle;
  PostMortemOf post_mortem;

  void draw();
  Action on_key(int kind, wint_t key);
  void edit_filter(int kind, wint_t key);
  void on_arrow(wint_t key);
  Action on_letter(wint_t key);
  void go_to(Page page);
  void back();
  void enter();
  void open(const OomEvent* kill);
};

void Screen::State::draw() {
  follow_resize();
  int height = 0, width = 0;
  getmaxyx(stdscr, height, width);
  Size size{static_cast<std::size_t>(std::max(width, 0)), static_cast<std::size_t>(std::max(height, 0))};
  werase(stdscr);
  int y = 0;
  for (const Line& line : render(overview, clock, view, size)) {
    wmove(stdscr, y, 0);
    for (const Cell& cell : line.cells) {
      wattrset(stdscr,
               static_cast<int>(attributes(cell.style, color) | (line.selected ? A_REVERSE : A_NORMAL)));
      waddnstr(stdscr, cell.text.data(), static_cast<int>(cell.text.size()));
    }
    if (line.selected && getcury(stdscr) == y) wchgat(stdscr, -1, A_REVERSE, 0, nullptr);  // to the edge
    ++y;
  }
  wattrset(stdscr, A_NORMAL);
  wrefresh(stdscr);
}

void Screen::State::go_to(Page page) {
  view.page = view.page == page ? Page::cgroups : page;
  view.first = 0;
}

// Goes back one step towards the initial list.
void Screen::State::back() {
  if (view.page == Page::report)
    close_report(view);
  else if (view.page != Page::cgroups)
    go_to(Page::cgroups);
  else if (!view.filter.empty())
    view.filter.clear();
  else
    view.selected.reset();
}

void Screen::State::open(const OomEvent* kill) {
  if (kill) open_report(view, post_mortem(*kill));
}

void Screen::State::enter() {
  if (const OomEvent* kill = kill_to_open(overview, view))
    open(kill);
  else if (view.page == Page::cgroups)
    open_details(view, overview);
  else
    back();
}

void Screen::State::edit_filter(int kind, wint_t key) {
  if (kind == KEY_CODE_YES) {
    if (key == KEY_BACKSPACE) drop_last_character(view.filter);
    if (key == KEY_ENTER) view.editing_filter = false;
    if (key == KEY_UP || key == KEY_DOWN) move(view, overview, key == KEY_UP ? -1 : 1);
    return;
  }
  if (key == kEscape) view.filter.clear();
  if (key == kEscape || key == kNewline || key == kReturn) view.editing_filter = false;
  if (key == kCtrlH || key == kDelete) drop_last_character(view.filter);
  if (key == 'U' - '@') view.filter.clear();
  if (key >= ' ' && key != kDelete && view.filter.size() < kLongestFilter) view.filter += utf8(key);
}

void Screen::State::on_arrow(wint_t key) {
  auto page = static_cast<std::ptrdiff_t>(std::max<std::size_t>(view.visible, 1));
  switch (key) {
    case KEY_UP:
      return move(view, overview, -1);
    case KEY_DOWN:
      return move(view, overview, 1);
    case KEY_PPAGE:
      return move(view, overview, -page);
    case KEY_NPAGE:
      return move(view, overview, page);
    case KEY_HOME:
      return move(view, overview, -kFar);
    case KEY_END:
      return move(view, overview, kFar);
    default:
      return;
  }
}

Screen::Action Screen::State::on_key(int kind, wint_t key) {
  bool special = kind == KEY_CODE_YES;
  if (special && key == KEY_RESIZE) return Action::none;
  if (!special && key == kCtrlC) return Action::quit;
  if (!special && key == kCtrlL) {
    clearok(stdscr, true);
    return Action::none;
  }
  if (view.editing_filter) {
    edit_filter(kind, key);
    return Action::none;
  }
  if (special) return key == KEY_ENTER ? on_key(OK, kNewline) : (on_arrow(key), Action::none);
  if (view.help) {
    view.help = false;
    view.first = 0;
    return Action::none;
  }
  if (key == 'q') return Action::quit;
  return on_letter(key);
}

Screen::Action Screen::State::on_letter(wint_t key) {
  switch (key) {
    case 'k':
      move(view, overview, -1);
      break;
    case 'j':
      move(view, overview, 1);
      break;
    case 's':
      view.order = static_cast<Order>((static_cast<int>(view.order) + 1) % 4);
      break;
    case '1':
    case '2':
    case '3':
    case '4':
      view.order = static_cast<Order>(key - '1');
      break;
    case 'r':
      view.reverse = !view.reverse;
      break;
    case '/':
      view.page = Page::cgroups;
      view.editing_filter = true;
      break;
    case kNewline:
    case kReturn:
      enter();
      break;
    case 'o':
      open(newest_kill(overview));
      break;
    case 'i':
      view.show_idle = !view.show_idle;
      break;
    case 'b':
      if (view.page != Page::details) open_details(view, overview);
      return Action::look;
    case 'p':
      go_to(Page::processes);
      break;
    case 'e':
      go_to(Page::events);
      break;
    case '?':
    case 'h':
      view.help = true;
      view.first = 0;
      break;
    case ' ':
      view.paused = !view.paused;
      break;
    case kEscape:
      back();
      break;
    default:
      break;
  }
  return Action::none;
}

Result<std::unique_ptr<Screen>> Screen::open(const ClockMap& clock, bool color, PostMortemOf post_mortem) {
  setlocale(LC_CTYPE, "");
  // Tables of other charsets are libraries of the machine's C library, which may not be ours.
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") setlocale(LC_CTYPE, "C");
  if (auto status = check_terminal(); !status) return status.error();
  auto state = std::make_unique<State>();
  state->clock = clock;
  state->post_mortem = std::move(post_mortem);
  state->terminal = newterm(nullptr, stdout, stdin);
  if (!state->terminal) return Error::failed("could not set the terminal up for the live screen");
  set_term(state->terminal);
  state->view.utf8 = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
  cbreak();
  noecho();
  keypad(stdscr, true);
  know_usual_keys();
  nodelay(stdscr, true);
  set_escdelay(25);
  curs_set(0);
  if (color && has_colors() && start_color() == OK && use_default_colors() == OK) {
    init_pair(kWarnPair, COLOR_YELLOW, -1);
    init_pair(kAlertPair, COLOR_RED, -1);
    state->color = true;
  }
  return std::unique_ptr<Screen>(new Screen(std::move(state)));
}

Screen::Screen(std::unique_ptr<State> state) : state_(std::move(state)) {}

Screen::~Screen() {
  endwin();
  delscreen(state_->terminal);
}

int Screen::input_fd() const {
  return STDIN_FILENO;
}

bool Screen::paused() const {
  return state_->view.paused;
}

Screen::Action Screen::on_input() {
  bool any = false, look = false;
  wint_t key = 0;
  for (int kind = wget_wch(stdscr, &key); kind != ERR; kind = wget_wch(stdscr, &key)) {
    any = true;
    Action action = state_->on_key(kind, key);
    if (action == Action::quit) return action;
    look = look || action == Action::look;
  }
  pollfd terminal{STDIN_FILENO, POLLIN, 0};
  if (poll(&terminal, 1, 0) > 0 && (terminal.revents & (POLLHUP | POLLERR | POLLNVAL))) return Action::quit;
  if (any) state_->draw();
  return look ? Action::look : Action::none;
}

std::optional<CgroupId> Screen::selected() const {
  const auto& selected = state_->view.selected;
  return selected && selected->inode ? selected : std::nullopt;
}

void Screen::draw(Overview overview) {
  if (state_->view.paused) return;
  state_->idle.mark(overview);
  state_->overview = std::move(overview);
  state_->draw();
}

}  // namespace oomcast
