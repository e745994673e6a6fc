# The build step of oomcast_web_page() (web.cmake): writes OUT, which defines NAME from the files STYLE, SCRIPT, NOTICE.
cmake_minimum_required(VERSION 3.25)

# The base64 of a SHA-256, as a Content-Security-Policy names an inline style or script.
function(sha256_base64 text out)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(SHA256 hex "${text}")
  set(base64 "")
  foreach(at RANGE 0 60 6)  # three bytes are four digits; the last two bytes, with a third of 0, are three
    string(SUBSTRING "${hex}00" ${at} 6 bytes)
    foreach(shift 18 12 6 0)
      math(EXPR digit "(0x${bytes} >> ${shift}) & 63")
      string(SUBSTRING ${alphabet} ${digit} 1 digit)
      string(APPEND base64 ${digit})
    endforeach()
  endforeach()
  string(REGEX REPLACE ".$" "=" base64 ${base64})
  set(${out} ${base64} PARENT_SCOPE)
endfunction()

# Reads files one after the other. What would end its element, or change on its way through an HTML parser, is refused.
function(join files out)
  set(joined "")
  foreach(file IN LISTS files)
    file(READ ${file} text)
    string(TOLOWER "${text}" lower)
    foreach(forbidden "</script" "</style" "<!--" "\r" ")oomcast\"")
      string(FIND "${lower}" "${forbidden}" at)
      if(NOT at EQUAL -1)
        message(FATAL_ERROR "${file} holds `${forbidden}`, which cannot be embedded")
      endif()
    endforeach()
    string(APPEND joined "${text}\n")
  endforeach()
  set(${out} "${joined}" PARENT_SCOPE)
endfunction()

set(value "std::nullopt")
if(SCRIPT)
  join("${NOTICE}" notice)
  join("${STYLE}" style)
  join("${SCRIPT}" script)
  if(notice)
    set(script "/*\n${notice}*/\n${script}")
  endif()
  sha256_base64("${style}" style_hash)
  sha256_base64("${script}" script_hash)
  set(value "WebPage{R\"oomcast(${style})oomcast\", \"${style_hash}\", R\"oomcast(${script})oomcast\", \"${script_hash}\"}")
endif()
file(WRITE ${OUT} "// Made by scripts/cmake/write_web_page.cmake.
#include \"present/web_page.h\"

namespace oomcast {
extern const std::optional<WebPage> ${NAME};
const std::optional<WebPage> ${NAME} = ${value};
}  // namespace oomcast
")
