# cmake --install: the libraries, the public headers below include/rondo, the program, and what find_package(rondo) reads.
# rondo::rondo is what hosts link.
include(public_headers)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(folders config kernels transport memory model actors)
add_library(rondo_all INTERFACE)
add_library(rondo::rondo ALIAS rondo_all)
set_target_properties(rondo_all PROPERTIES EXPORT_NAME rondo)
foreach(name ${folders})
  target_link_libraries(rondo_all INTERFACE rondo_${name})
  set_target_properties(rondo_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS rondo_${name} EXPORT rondo ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
foreach(header ${RONDO_PUBLIC_HEADERS})
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rondo/${folder})
endforeach()
install(TARGETS rondo_all rondo_caf EXPORT rondo)
if(TARGET rondo)
  install(TARGETS rondo RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # Where each shell looks for them by itself.
  foreach(script bash:bash-completion/completions/rondo zsh:zsh/site-functions/_rondo fish:fish/vendor_completions.d/rondo.fish)
    string(REGEX MATCH "^([a-z]+):(.*)/([^/]+)$" matched ${script})
    set(made ${CMAKE_CURRENT_BINARY_DIR}/completions/${CMAKE_MATCH_1}/${CMAKE_MATCH_3})
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/completions/${CMAKE_MATCH_1})
    install(CODE "execute_process(COMMAND \"$<TARGET_FILE:rondo>\" completion ${CMAKE_MATCH_1}
      OUTPUT_FILE \"${made}\" COMMAND_ERROR_IS_FATAL ANY)")
    install(FILES ${made} DESTINATION ${CMAKE_INSTALL_DATADIR}/${CMAKE_MATCH_2})
  endforeach()
endif()

install(FILES ${CMAKE_BINARY_DIR}/page/licences.txt DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME page-licences.txt)
install(DIRECTORY examples/demo_model DESTINATION ${CMAKE_INSTALL_DATADIR}/rondo)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
install(EXPORT rondo NAMESPACE rondo:: FILE rondo-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/rondo-config.cmake.in rondo-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(rondo-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/find-cuda-toolkit.cmake ${CMAKE_CURRENT_BINARY_DIR}/rondo-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/rondo-config-version.cmake
  DESTINATION ${package_dir})
