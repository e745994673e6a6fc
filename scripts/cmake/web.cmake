# HTML pages that need nothing but themselves: packages of the npm registry, styles and scripts as C++ data.
option(OOMCAST_HTML "Build the HTML pages, which embed packages of the npm registry" ON)
set(OOMCAST_NPM_FOLDER ${PROJECT_BINARY_DIR}/npm CACHE PATH "Where their packages are installed; builds may share it")

# oomcast_npm(FOLDER OUT): installs what FOLDER/package-lock.json pins below OOMCAST_NPM_FOLDER; OUT is its node_modules.
# Only the first configure, and one after a change of the lock, needs npm and its registry.
function(oomcast_npm folder out)
  if(NOT OOMCAST_HTML)
    return()
  endif()
  get_filename_component(name ${folder} NAME)
  set(into ${OOMCAST_NPM_FOLDER}/${name})
  set(${out} ${into}/node_modules PARENT_SCOPE)
  set(manifests ${folder}/package.json ${folder}/package-lock.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${manifests})
  file(SHA256 ${folder}/package-lock.json wanted)
  set(installed "")
  if(EXISTS ${into}/installed)
    file(READ ${into}/installed installed)
  endif()
  if(installed STREQUAL wanted)
    return()
  endif()
  set(advice "The HTML pages embed what ${folder}/package.json names, from the npm registry. Either let npm reach it "
             "(`npm config set registry URL` and `proxy` name another way), or configure with -DOOMCAST_HTML=OFF to "
             "build without HTML.")
  string(CONCAT advice ${advice})
  find_program(OOMCAST_NPM npm)
  if(NOT OOMCAST_NPM)
    message(FATAL_ERROR "npm not found: `scripts/setup --build-only` installs it.\n${advice}")
  endif()
  message(STATUS "npm ci: ${folder}/package-lock.json")
  file(MAKE_DIRECTORY ${into})
  file(COPY ${manifests} DESTINATION ${into})
  execute_process(COMMAND ${OOMCAST_NPM} ci --omit=dev --ignore-scripts --prefer-offline --no-audit --no-fund
                  WORKING_DIRECTORY ${into} TIMEOUT 300 RESULT_VARIABLE result
                  OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT result EQUAL 0)
    string(REPLACE "\n" "\n  " said "${said}")  # indented: CMake fills the lines of a paragraph
    message(FATAL_ERROR "`npm ci` failed (${result}):\n  ${said}\n${advice}")
  endif()
  file(WRITE ${into}/installed ${wanted})
endfunction()

# oomcast_web_page(TARGET NAME STYLE css… SCRIPT js… NOTICE text…): a C++ source of TARGET that defines
# `const std::optional<WebPage> oomcast::NAME` (userspace/present/web_page.h), the files of each kind joined in their
# order. NOTICE: licences of what is embedded, which go into the script as comments. Without OOMCAST_HTML it is nullopt.
function(oomcast_web_page target name)
  cmake_parse_arguments(PARSE_ARGV 2 page "" "" "STYLE;SCRIPT;NOTICE")
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  if(NOT OOMCAST_HTML)
    set(page_STYLE "")
    set(page_SCRIPT "")
    set(page_NOTICE "")
  endif()
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DNAME=${name} "-DSTYLE=${page_STYLE}" "-DSCRIPT=${page_SCRIPT}"
            "-DNOTICE=${page_NOTICE}" -P ${PROJECT_SOURCE_DIR}/scripts/cmake/write_web_page.cmake
    DEPENDS ${page_STYLE} ${page_SCRIPT} ${page_NOTICE} ${PROJECT_SOURCE_DIR}/scripts/cmake/write_web_page.cmake
    COMMENT "Embedding ${name}"
    VERBATIM)
  target_sources(${target} PRIVATE ${out})
  add_custom_target(${name} DEPENDS ${out})
  add_dependencies(generated_sources ${name})
endfunction()
