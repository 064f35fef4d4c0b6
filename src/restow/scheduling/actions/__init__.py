"""The actions of a session, in the order of the configuration: each takes the backlog of jobs and returns what is left.

enqueue    which gangs are admitted to their queue
reserve    pods take the seats held for them: named_seats, own_seats, last_seat; one pod: seat_assignment;
           the job as a whole: gang_seats
allocate   jobs start in the order of queues: job_start, job_limits; a broken gang: gang_completion
backfill   jobs behind a waiting one start on room that does not delay it
"""
