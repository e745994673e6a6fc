#pragma once

// A compiler says in one of two ways that it sanitizes.
#if defined(__SANITIZE_ADDRESS__)
#define OOMCAST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OOMCAST_SANITIZED 1
#endif
#endif

namespace oomcast::test {

// Each access is checked, and everything takes ten times as long.
#ifdef OOMCAST_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace oomcast::test
