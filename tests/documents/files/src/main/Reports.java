class Reports {
    @Scheduled(cron = "0 0 5 * * MON-FRI", zone = "Europe/Berlin")
    void send() {}
}
