package com.example.reports;

import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/** Reports. Not a job: @Scheduled(cron = "0 0 0 * * *") */
@Component
public class ReportJobs {
    private static final String MIRROR = "https://example.com/*reports*/";

    @Scheduled(cron = "0 0 7 * * MON", zone = "Europe/Paris")
    @SchedulerLock(name = "weekly", lockAtMostFor = "PT30M")
    public void weekly() {
    }

    // @Scheduled(cron = "0 0 8 * * *")
    @Scheduled(fixedRate = 5, timeUnit = TimeUnit.MINUTES)
    void refresh() {
    }

    @Scheduled(fixedDelayString = "90000", initialDelay = 1000)
    void drain() {
    }

    @Schedules({
        @Scheduled(cron = "0 0 9 1W * ?", zone = "Europe/Paris"),
        @Scheduled(cron = "0 0 18 L * ?", zone = "Europe/Paris")
    })
    void twice() {
    }

    @Scheduled(cron = "${reports.nightly.cron}")
    void nightly() {
    }

    @Scheduled(cron = NIGHTLY)
    void constant() {
    }
}
