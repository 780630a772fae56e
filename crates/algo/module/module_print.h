/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a module prints: lines of the run's log, each with the simulated time and the flow whose call it was.
 */
#ifndef KNEE_MODULE_PRINT_H
#define KNEE_MODULE_PRINT_H

/* A level stands before the text, as in the kernel: the byte SOH and a digit. */
#define KERN_SOH	"\001"
#define KERN_EMERG	KERN_SOH "0"
#define KERN_ALERT	KERN_SOH "1"
#define KERN_CRIT	KERN_SOH "2"
#define KERN_ERR	KERN_SOH "3"
#define KERN_WARNING	KERN_SOH "4"
#define KERN_NOTICE	KERN_SOH "5"
#define KERN_INFO	KERN_SOH "6"
#define KERN_DEBUG	KERN_SOH "7"
#define KERN_DEFAULT	""
#define KERN_CONT	KERN_SOH "c"

#ifndef KBUILD_MODNAME
#define KBUILD_MODNAME	KNEE_MODULE_NAME
#endif
#ifndef pr_fmt
#define pr_fmt(format)	format
#endif

#ifdef __bpf__
/* A program of the kernel has no log of its own here; the format is checked all the same. */
static inline __attribute__((format(printf, 1, 2))) int knee_no_printk(const char *format, ...)
{
	return 0;
}
#define printk(...)		(0 && knee_no_printk(__VA_ARGS__))
#define knee_warn(file, line, what) ((void)0)
#else
/* In support_print.c. */
int knee_printk(const char *format, ...) __attribute__((format(printf, 1, 2)));
void knee_warn(const char *file, int line, const char *what);
#define printk(...)		knee_printk(__VA_ARGS__)
#endif

#define no_printk(...)		((void)(0 && (printk(__VA_ARGS__), 0)))

/* Says it the first time only; the variable is the loaded copy's, so once per host. */
#define knee_once(what) ({							\
	static bool was_said_;							\
	if (!was_said_) {							\
		was_said_ = true;						\
		what;								\
	}									\
})
#define printk_once(...)	knee_once(printk(__VA_ARGS__))
/* The log keeps to a limit of its own. */
#define printk_ratelimited(...)	printk(__VA_ARGS__)
#define printk_deferred(...)	printk(__VA_ARGS__)

#define pr_emerg(format, ...)	printk(KERN_EMERG pr_fmt(format), ##__VA_ARGS__)
#define pr_alert(format, ...)	printk(KERN_ALERT pr_fmt(format), ##__VA_ARGS__)
#define pr_crit(format, ...)	printk(KERN_CRIT pr_fmt(format), ##__VA_ARGS__)
#define pr_err(format, ...)	printk(KERN_ERR pr_fmt(format), ##__VA_ARGS__)
#define pr_warn(format, ...)	printk(KERN_WARNING pr_fmt(format), ##__VA_ARGS__)
#define pr_warning(format, ...)	pr_warn(format, ##__VA_ARGS__)
#define pr_notice(format, ...)	printk(KERN_NOTICE pr_fmt(format), ##__VA_ARGS__)
#define pr_info(format, ...)	printk(KERN_INFO pr_fmt(format), ##__VA_ARGS__)
#define pr_cont(format, ...)	printk(KERN_CONT format, ##__VA_ARGS__)
/* As in the kernel these say something only where the file defines DEBUG. */
#ifdef DEBUG
#define pr_debug(format, ...)	printk(KERN_DEBUG pr_fmt(format), ##__VA_ARGS__)
#define pr_devel(format, ...)	printk(KERN_DEBUG pr_fmt(format), ##__VA_ARGS__)
#else
#define pr_debug(format, ...)	no_printk(KERN_DEBUG pr_fmt(format), ##__VA_ARGS__)
#define pr_devel(format, ...)	no_printk(KERN_DEBUG pr_fmt(format), ##__VA_ARGS__)
#endif

#define pr_emerg_once(...)	knee_once(pr_emerg(__VA_ARGS__))
#define pr_alert_once(...)	knee_once(pr_alert(__VA_ARGS__))
#define pr_crit_once(...)	knee_once(pr_crit(__VA_ARGS__))
#define pr_err_once(...)	knee_once(pr_err(__VA_ARGS__))
#define pr_warn_once(...)	knee_once(pr_warn(__VA_ARGS__))
#define pr_notice_once(...)	knee_once(pr_notice(__VA_ARGS__))
#define pr_info_once(...)	knee_once(pr_info(__VA_ARGS__))
#define pr_debug_once(...)	knee_once(pr_debug(__VA_ARGS__))
#define pr_emerg_ratelimited(...) pr_emerg(__VA_ARGS__)
#define pr_err_ratelimited(...)	pr_err(__VA_ARGS__)
#define pr_warn_ratelimited(...) pr_warn(__VA_ARGS__)
#define pr_notice_ratelimited(...) pr_notice(__VA_ARGS__)
#define pr_info_ratelimited(...) pr_info(__VA_ARGS__)
#define pr_debug_ratelimited(...) pr_debug(__VA_ARGS__)
#define net_err_ratelimited(...) pr_err(__VA_ARGS__)
#define net_warn_ratelimited(...) pr_warn(__VA_ARGS__)
#define net_notice_ratelimited(...) pr_notice(__VA_ARGS__)
#define net_info_ratelimited(...) pr_info(__VA_ARGS__)
#define net_dbg_ratelimited(...) pr_debug(__VA_ARGS__)

#define trace_printk(format, ...) printk(KERN_DEBUG format, ##__VA_ARGS__)
#define trace_puts(text)	printk(KERN_DEBUG "%s", text)
#define printk_ratelimit()	true
#define net_ratelimit()		true
#define dump_stack()		do { } while (0)

#define WARN_ON(condition) ({							\
	bool warns_ = !!(condition);						\
	if (unlikely(warns_))							\
		knee_warn(__FILE__, __LINE__, "WARN_ON(" #condition ")");	\
	unlikely(warns_); })
#define WARN(condition, format, ...) ({						\
	bool warns_ = !!(condition);						\
	if (unlikely(warns_)) {							\
		knee_warn(__FILE__, __LINE__, "WARN(" #condition ")");		\
		printk(KERN_WARNING format, ##__VA_ARGS__);			\
	}									\
	unlikely(warns_); })
#define WARN_ON_ONCE(condition) ({						\
	bool once_ = !!(condition);						\
	if (unlikely(once_))							\
		knee_once(knee_warn(__FILE__, __LINE__, "WARN_ON_ONCE(" #condition ")")); \
	unlikely(once_); })
#define WARN_ONCE(condition, format, ...) ({					\
	bool once_ = !!(condition);						\
	if (unlikely(once_))							\
		knee_once((void)WARN(once_, format, ##__VA_ARGS__));		\
	unlikely(once_); })
#define WARN_TAINT(condition, taint, ...)	WARN(condition, __VA_ARGS__)
#define VM_BUG_ON(condition)			BUG_ON(condition)
/* Checks that a kernel makes where it was built for debugging. */
#define DEBUG_NET_WARN_ON_ONCE(condition)	((void)(sizeof(!!(condition))))
#define VM_WARN_ON(condition)			((void)(sizeof(!!(condition))))
#define lockdep_sock_is_held(sk)		true
#define lockdep_assert_held(lock)		((void)(lock))

#endif
