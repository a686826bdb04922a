# Run by the install: writes HEADERS of SOURCE_DIR below WRITTEN_DIR, where they include each other as "rondo/...". So a
# host's own config/settings.hpp is not taken for ours, nor ours for the host's.
foreach(header ${HEADERS})
  file(READ ${SOURCE_DIR}/${header} text)
  string(REGEX REPLACE "(#include \")([a-z]+/)" "\\1rondo/\\2" text "${text}")
  file(WRITE ${WRITTEN_DIR}/${header} "${text}")
endforeach()
