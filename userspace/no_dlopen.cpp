// Of the static program alone, in place of the C library's: a shared library would bring the machine's own C library
// into this process, of whatever version it is. libdw asks for one as it starts (debuginfod), SQLite for extensions;
// both go on without.
#include <dlfcn.h>

extern "C" {

void* dlopen(const char*, int) noexcept {
  return nullptr;
}
void* dlsym(void* __restrict, const char* __restrict) noexcept {
  return nullptr;
}
int dlclose(void*) noexcept {
  return -1;
}
char* dlerror() noexcept {
  static char why[] = "a static program loads no libraries";
  return why;
}

}  // extern "C"
