// Where the program keeps what is a person's own, by the XDG Base Directory Specification.
#pragma once

#include <string>

namespace kapitsa {

/// The folder "kapitsa" under $`variable`, else under `under_home` in the home folder:
/// own_folder("XDG_DATA_HOME",
/// ".local/share"). "" where there is no home: a service or a container may have none.
std::string own_folder(const char* variable, const char* under_home);

}  // namespace kapitsa
