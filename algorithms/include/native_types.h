/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Integer types under the kernel's names, for the native build. */
#ifndef KNEE_NATIVE_TYPES_H
#define KNEE_NATIVE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#endif
