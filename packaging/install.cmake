include(GNUInstallDirs)
install(TARGETS oomcast RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR})
install(FILES ${CMAKE_CURRENT_LIST_DIR}/oomcast.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_CURRENT_LIST_DIR}/doc/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.png")

# systemd looks below /usr and below /usr/local.
file(READ ${CMAKE_CURRENT_LIST_DIR}/oomcast.service unit)
string(REPLACE "/usr/sbin/" "${CMAKE_INSTALL_FULL_SBINDIR}/" unit "${unit}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/oomcast.service CONTENT "${unit}" @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/oomcast.service DESTINATION lib/systemd/system)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/oomcast.sysusers DESTINATION lib/sysusers.d RENAME oomcast.conf)
# What an administrator has set stays.
install(CODE "
  if(NOT EXISTS \"\$ENV{DESTDIR}/etc/oomcast/oomcast.conf\")
    file(INSTALL \"${CMAKE_CURRENT_LIST_DIR}/oomcast.conf\" DESTINATION /etc/oomcast)  # below DESTDIR
  endif()")
