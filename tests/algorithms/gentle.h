/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A header of the file's own, beside it. */
#ifndef GENTLE_H
#define GENTLE_H

#define GENTLE_UNIT 1024		/* of shares in fixed point */

#endif
