# What is installed beside the program, and the .deb: the target `deb` in a build folder of type Release.
# tests/packaging/deb_in_chroot.sh tries the package on a bare Debian 12.
install(FILES packaging/ranvier.service DESTINATION /lib/systemd/system)
install(FILES packaging/ranvier.toml DESTINATION /etc/ranvier)
install(FILES packaging/monitoring/alerts.yml packaging/monitoring/grafana.json packaging/monitoring/prometheus.yml
        DESTINATION share/ranvier/monitoring)
install(FILES README.md docs/INTEGRATING.md docs/METRICS.md docs/openapi.yaml packaging/debian/copyright
        DESTINATION share/doc/ranvier)
install(PROGRAMS docs/example_host.py DESTINATION share/doc/ranvier/examples)

# The manual page, if scdoc is there (packaging/build-packages.txt names it).
find_program(SCDOC scdoc)
set(manual ${CMAKE_BINARY_DIR}/ranvier.1.gz)
if(SCDOC)
  add_custom_command(OUTPUT ${manual} DEPENDS ${CMAKE_SOURCE_DIR}/packaging/ranvier.1.scd VERBATIM
                     COMMAND sh -c "\"$0\" < \"$1\" | gzip -9n > \"$2\"" ${SCDOC}
                             ${CMAKE_SOURCE_DIR}/packaging/ranvier.1.scd ${manual})
  add_custom_target(manual ALL DEPENDS ${manual})
  install(FILES ${manual} DESTINATION share/man/man1)
endif()

add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/changelog.gz DEPENDS ${CMAKE_SOURCE_DIR}/packaging/debian/changelog
                   COMMAND sh -c "gzip -9nc \"$0\" > \"$1\"" ${CMAKE_SOURCE_DIR}/packaging/debian/changelog
                           ${CMAKE_BINARY_DIR}/changelog.gz VERBATIM)
add_custom_target(changelog ALL DEPENDS ${CMAKE_BINARY_DIR}/changelog.gz)
install(FILES ${CMAKE_BINARY_DIR}/changelog.gz DESTINATION share/doc/ranvier)

# Completions are what the program prints, from its own table of verbs.
install(CODE "
  foreach(pair bash:bash-completion/completions/ranvier zsh:zsh/vendor-completions/_ranvier
               fish:fish/vendor_completions.d/ranvier.fish)
    string(REPLACE \":\" \";\" pair \"\${pair}\")
    list(GET pair 0 shell)
    list(GET pair 1 file)
    execute_process(COMMAND \"$<TARGET_FILE:ranvier>\" completion \${shell} OUTPUT_VARIABLE text ERROR_QUIET
                    RESULT_VARIABLE code)
    if(code EQUAL 0)
      file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/\${file}\" \"\${text}\")
    else()
      message(FATAL_ERROR \"no completion for \${shell}: 'ranvier completion \${shell}' ended with \${code}\")
    endif()
  endforeach()")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_NAME ranvier)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The authors of Ranvier <ranvier@localhost>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser, init-system-helpers (>= 1.54~), ca-certificates")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${CMAKE_SOURCE_DIR}/packaging/debian/postinst ${CMAKE_SOURCE_DIR}/packaging/debian/prerm
    ${CMAKE_SOURCE_DIR}/packaging/debian/postrm ${CMAKE_SOURCE_DIR}/packaging/debian/conffiles)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Matrix federation delivery engine")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Carries everything that must reach other Matrix homeservers: events,
to-device messages, device lists, typing, receipts and presence. A homeserver
feeds it over HTTP; it finds the servers, signs, delivers in order and once
each, through outages, restarts and crashes, and hands over what other servers
send. It says at any moment what it is doing for whom, and why not.")
include(CPack)

# Only what is installed is built for it, not all tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
add_custom_target(deb COMMAND ${CMAKE_CPACK_COMMAND} -G DEB DEPENDS ranvier changelog VERBATIM)
if(SCDOC)
  add_dependencies(deb manual)
endif()
